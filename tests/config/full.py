"""An opsctl.yaml that sets every key, as data and as text."""

from __future__ import annotations

from typing import Any

from opsctl.config.yaml_text import block

FULL: dict[str, Any] = {
    "services": {
        "web": {
            "app": {
                "directory": "app",
                "command": ["{python}", "main.py", "--port", "{port}", "--model", "{model}"],
                "build": ["make", "all"],
                "build_timeout_s": 120,
                "python": "/usr/bin/python3",
                "exclude": ["*.pyc", ".git"],
                "env": {"TF_CPP_MIN_LOG_LEVEL": "2", "MODE": "fast"},
                "secrets": {
                    "API_TOKEN": {"env": "TOKEN"},
                    "DB_PASSWORD": {"file": "secrets/db"},
                    "SIGNING_KEY": {"command": ["pass", "show", "key"]},
                },
                "stop_timeout_s": 12.5,
            },
            "model": {"path": "model", "name": "anomaly"},
            "replicas": 3,
            "resources": {"memory_mb": 512, "cpus": [0, 1]},
            "health": {
                "path": "/ready",
                "live_path": "/live",
                "tries": 20,
                "interval_s": 0.5,
                "timeout_s": 1.5,
                "streak": 2,
                "max_restarts": 4,
            },
            "smoke": [
                {
                    "name": "scores a window",
                    "method": "POST",
                    "path": "/v1/models/anomaly:predict",
                    "headers": {"X-Tenant": "test"},
                    "body": {"instances": [[1, 2.5]]},
                    "status": 200,
                    "json": [
                        {"path": "predictions.0", "equals": 0.5, "tolerance": 0.001},
                        {"path": "predictions", "shape": [1]},
                    ],
                    "timeout_s": 3,
                },
                {"name": "body from a file", "method": "PUT", "path": "/x", "body_file": "b.json"},
                {"name": "custom op", "run": ["{python}", "check.py"], "timeout_s": 60},
            ],
            "bench": {
                "path": "/v1/models/anomaly:predict",
                "method": "POST",
                "requests_file": "requests.jsonl",
                "batch_sizes": [1, 8],
                "rate_per_s": 50,
                "arrivals": "constant",
                "interleave": "slices",
                "warmup_s": 1,
                "warmup_requests": 10,
                "warmup_max_s": 20,
                "timeout_s": 2,
                "connections": 4,
                "seed": 7,
            },
            "gate": {
                "enabled": True,
                "budget_s": 60,
                "min_pairs": 100,
                "alpha": 0.02,
                "beta": 0.05,
                "tolerated_p50_percent": 2,
                "tolerated_p99_percent": 3,
                "refused_p50_percent": 10,
                "refused_p99_percent": 20,
                "refused_error_rate": 0.05,
                "metrics": ["p50", "errors"],
                "max_p99_ms": 250,
                "max_error_rate": 0.02,
                "max_lag_percent": 15,
                "prometheus": {
                    "url": "https://metrics.example",
                    "queries": [
                        {
                            "name": "queue length",
                            "query": 'queue_length{release="{release}"}',
                            "better": "lower",
                            "tolerated_percent": 10,
                            "refused_percent": 50,
                            "least": 0,
                            "most": 100,
                        }
                    ],
                    "interval_s": 5,
                    "timeout_s": 2,
                    "token": {"env": "METRICS_TOKEN"},
                    "ca_file": "tls/ca.pem",
                },
                "on_inconclusive": "pause",
                "confirm": False,
            },
            "strategy": {
                "type": "canary",
                "stages": [
                    {"weight": 5, "hold_s": 2, "approval": True},
                    {"weight": 50, "hold_s": 4, "approval": False},
                ],
                "promote_approval": True,
                "promote_hold_s": 1,
                "max_error_rate": 0.05,
                "min_requests": 5,
                "drain_timeout_s": 10,
                "rollback_window_s": 600,
                "allow_downtime": True,
                "step_timeout_s": 300,
            },
            "hooks": [
                {"when": "before", "run": ["./lint.sh"], "step": "build", "timeout_s": 30},
                {"when": "after", "run": ["./tell.sh", "done"], "step": "deploy"},
            ],
            "notifications": [
                {
                    "url": "https://chat.example/hooks/1",
                    "events": ["failed"],
                    "secret": {"env": "HOOK_KEY"},
                    "tries": 2,
                    "timeout_s": 1,
                }
            ],
            "retention": {"releases": 3, "reports": 10, "min_free_mb": 50},
            "local": {
                "host": "0.0.0.0",
                "port": 9000,
                "state_dir": "state",
                "replica_ports": [30000, 31000],
                "haproxy": "/usr/sbin/haproxy",
                "tls": {"certificate": "tls/cert.pem", "private_key": "tls/key.pem"},
                "request_timeout_s": 30,
                "retry_requests": False,
                "log_max_mb": 5,
                "log_files": 2,
                "start_at_boot": True,
            },
        }
    },
    "version": 1,
    "environments": {
        "production": {"target": "local"},
        "staging": {
            "target": "local",
            "overrides": {
                "*": {"replicas": 2, "gate": {"alpha": 0.1}},
                "web": {"app": {"env": {"MODE": "slow"}}, "local": {"port": "auto"}},
            },
        },
    },
}

FULL_TEXT = "\n".join(block(FULL)) + "\n"
