"""Keys of opsctl.yaml for `opsctl render compose`; a part of the settings."""

from __future__ import annotations

from opsctl.config.fields import Section, key, section


@section
class Compose(Section):
    """What the compose file says."""

    replicas: int = key(3, doc="Replicas, each a service of its own.", low=1, high=64)
    port: int = key(80, doc="Published port.", low=1, high=65535)
    memory_limit_mb: int = key(8192, doc="Memory limit of a replica.", low=16)
    memory_reserved_mb: int = key(4096, doc="Memory kept for a replica.", low=16)
    cards: int = key(2, doc="NPUs of a replica, never shared; 0: none.", low=0, high=64)
    npu: str = key(
        "runtime",
        doc="runtime: the Ascend runtime hands cards and driver in; devices: by device nodes and"
        " mounts.",
        choices=("runtime", "devices"),
    )
    models: str = key("/srv/models", doc="Folder of the models on the host, seen at /models.")
    model_path: str = key("/models", doc="The model's version in a replica.")
    health_path: str = key("/health", doc="Path on the health port that tells health.")
    health_command: tuple[str, ...] = key(
        (),
        doc="Command in the image that tells health; default: Python asks health_path.",
        example=("curl", "--fail", "http://127.0.0.1:8080/health"),
    )
    balancer_image: str = key("haproxy:2.8", doc="Image of HAProxy, 2.4 or newer.")
