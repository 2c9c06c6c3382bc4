# Sourced by scripts/docker: the processes. Each has a pid file, and counts as ours only while the
# process of that number is the same program.

# Goes away when the machine restarts, as the processes do.
state_dir=${OPSCTL_DOCKER_STATE:-/run/opsctl-docker}
# What the registry and BuildKit keep. The engine keeps its own in /var/lib/docker.
data_dir=${OPSCTL_DOCKER_DATA:-/var/lib/opsctl-docker}
buildkit_socket=$state_dir/buildkitd.sock
buildkit_address=unix://$buildkit_socket
docker_cli=docker

engine_address() { printf '%s' "${DOCKER_HOST:-unix:///var/run/docker.sock}"; }

engine_answers() { "$docker_cli" version --format '{{.Server.Version}}' >/dev/null 2>&1; }

registry_address() { cat "$state_dir/registry.address" 2>/dev/null || true; }

registry_answers() {
  local address
  address=$(registry_address)
  [ -n "$address" ] && curl --silent --fail --noproxy '*' --max-time 5 "http://$address/v2/" >/dev/null
}

buildkit_answers() {
  [ -S "$buildkit_socket" ] && process_runs buildkitd &&
    python3 - "$buildkit_socket" <<'PYTHON'
import socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.settimeout(5)
    connection.connect(sys.argv[1])
PYTHON
}

process_runs() { # name of the pid file
  local pid program
  read -r pid program 2>/dev/null <"$state_dir/$1.pid" || return 1
  [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$program" ]
}

# start_process NAME PROGRAM ARGUMENT...: in a session of its own, so that it outlives the terminal.
start_process() {
  local name=$1 program
  program=$(readlink -f "$2")
  setsid "$program" "${@:3}" >>"$data_dir/$name.log" 2>&1 </dev/null 9>&- &
  printf '%s %s\n' $! "$program" >"$state_dir/$name.pid"
  # It is still bash or setsid for a moment.
  while kill -0 $! 2>/dev/null && ! process_runs "$name"; do sleep 0.05; done
}

# await NAME COMMAND: until it answers; the end of the log tells why it does not.
await() {
  local deadline=$((SECONDS + 120))
  until "$2"; do
    if [ $SECONDS -ge $deadline ] || ! process_runs "$1"; then
      echo "$1 does not answer. The end of $data_dir/$1.log:"
      tail -n 15 "$data_dir/$1.log"
      return 1
    fi
    sleep 0.2
  done
}

end_process() { # name of the pid file
  local pid rest deadline=$((SECONDS + 30))
  if process_runs "$1"; then
    read -r pid rest <"$state_dir/$1.pid"
    kill "$pid"
    while process_runs "$1"; do
      [ $SECONDS -lt $deadline ] || {
        echo "$1 (pid $pid) does not end." >&2
        return 1
      }
      sleep 0.2
    done
  fi
  rm -f "$state_dir/$1.pid"
}

start_engine() {
  if [ -n "${DOCKER_HOST-}" ]; then
    echo "The engine of DOCKER_HOST=$DOCKER_HOST does not answer, and it is not ours to start."
    return 1
  fi
  mkdir -p "$data_dir"
  # A pid file of an engine that died with its machine keeps a new one from starting.
  rm -f /var/run/docker.pid
  start_process dockerd "$(command -v dockerd || echo /usr/sbin/dockerd)"
  await dockerd engine_answers
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The port is kept for as long as the machine runs: names of images hold it.
start_registry() {
  local address
  mkdir -p "$data_dir/registry"
  address=$(registry_address)
  if [ -z "$address" ]; then
    address=127.0.0.1:$(free_port)
    printf '%s' "$address" >"$state_dir/registry.address"
  fi
  cat >"$state_dir/registry.yml" <<YAML
version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: $data_dir/registry}
  delete: {enabled: true}
http: {addr: "$address"}
YAML
  start_process registry /usr/bin/docker-registry serve "$state_dir/registry.yml"
  await registry registry_answers
}

start_buildkit() {
  local group=root
  mkdir -p "$data_dir/buildkit"
  getent group docker >/dev/null && group=docker
  printf '[registry."%s"]\n  http = true\n' "$(registry_address)" >"$state_dir/buildkitd.toml"
  start_process buildkitd "$(buildkit_program)" --addr "$buildkit_address" --group "$(getent group "$group" | cut -d: -f3)" \
    --root "$data_dir/buildkit" --config "$state_dir/buildkitd.toml" \
    --containerd-worker=false --oci-worker-binary "$(command -v runc || echo /usr/sbin/runc)"
  await buildkitd buildkit_answers
}

write_environment() {
  {
    printf 'export OPSCTL_TEST_REGISTRY=%q\n' "$(registry_address)"
    printf 'export OPSCTL_TEST_BASE=%q\n' "$(<"$state_dir/base-bookworm")"
    ! buildkit_answers || printf 'export OPSCTL_TEST_BUILDKIT=%q\n' "$buildkit_address"
    printf 'export OPSCTL_TEST_NEWER_ENGINE=%q\n' "$(tools_dir)/engine/dockerd"
    printf 'export PATH=%q:"$PATH"\n' "$(tools_dir)/bin"
  } >"$state_dir/env.new"
  mv "$state_dir/env.new" "$state_dir/env"
}
