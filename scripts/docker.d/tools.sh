# Sourced by scripts/docker: what is installed. Debian 12 has the engine; its plugins, cosign and a
# newer engine for tests come from the release after it, unpacked beside the system; BuildKit is
# compiled from its Go module.

# A number to raise when the recipe changes; the cache of the old one is then left alone.
readonly tools_recipe=2
readonly buildkit_version=v0.25.2

tools_dir() { printf '%s' "$cache_dir/docker/tools-$tools_recipe-$(dpkg --print-architecture)"; }
buildkit_program() { printf '%s' "$cache_dir/docker/buildkit-$buildkit_version-$(dpkg --print-architecture)/buildkitd"; }

engine_packages() {
  [ -x /usr/sbin/dockerd ] || echo docker.io
  [ -x /usr/bin/containerd ] || echo containerd
  [ -x /usr/sbin/runc ] || [ -x /usr/bin/runc ] || echo runc
  [ -x /usr/sbin/iptables ] || echo iptables
  [ -x /usr/bin/docker-registry ] || echo docker-registry
  [ -x /usr/sbin/debootstrap ] || echo debootstrap
  [ -x /usr/bin/skopeo ] || echo skopeo
  [ -x /usr/bin/curl ] || echo curl
}

require_engine_packages() {
  local packages
  mapfile -t packages < <(engine_packages)
  [ ${#packages[@]} -eq 0 ] || step "system packages: ${packages[*]}" install_engine "${packages[@]}"
}

apt() { apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@"; }

install_engine() {
  exec 8>/var/lock/opsctl-packages.lock
  flock 8
  # In runlevel 1 packages start no services: `up` starts them, where no init does.
  export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
  apt install --no-install-recommends "$@" || {
    apt update
    apt install --no-install-recommends "$@"
  }
}

# The mirror that this machine's own Debian comes from.
debian_mirror() {
  apt-get indextargets --format '$(SITE) $(ORIGIN) $(LABEL)' 'Created-By: Packages' |
    awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

require_tools() {
  local tools
  tools=$(tools_dir)
  [ -x "$tools/bin/cosign" ] || step 'buildx, compose, cosign, a newer engine' unpack_tools "$tools"
  # Where each docker CLI looks for plugins. What somebody installed there is left alone.
  mkdir -p /usr/libexec/docker/cli-plugins
  local plugin
  for plugin in docker-buildx docker-compose; do
    [ -e "/usr/libexec/docker/cli-plugins/$plugin" ] ||
      ln -sfn "$tools/plugins/$plugin" "/usr/libexec/docker/cli-plugins/$plugin"
  done
}

unpack_tools() { # folder to make
  local work mirror
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || {
    echo 'apt knows no Debian mirror (apt-get indextargets); add one to /etc/apt/sources.list.d and try again.'
    return 1
  }
  work=$(mktemp -d "$cache_dir/docker/tools-XXXXXX")
  mkdir -p "$work"/{lists/partial,archives/partial,root,made/bin,made/plugins,made/engine}
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$mirror" >"$work/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/nonexistent
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work" -o APT::Sandbox::User=root)
  apt "${options[@]}" update
  (cd "$work" && apt "${options[@]}" download docker-buildx docker-compose cosign docker.io)
  local package
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/root"; done
  cp "$work/root/usr/libexec/docker/cli-plugins/"docker-* "$work/made/plugins/"
  cp "$work/root/usr/bin/cosign" "$work/made/bin/"
  cp "$work/root/usr/sbin/"docker* "$work/made/engine/"
  chmod 0755 "$work/made"
  rm -rf "$1"
  mv -T "$work/made" "$1"
  rm -rf "$work"
}

require_buildkit() {
  [ -x "$(buildkit_program)" ] || step "BuildKit $buildkit_version (compiled once)" compile_buildkit
}

compile_buildkit() {
  local go program work
  go=$(command -v go || echo /usr/local/go/bin/go)
  [ -x "$go" ] || {
    echo "BuildKit $buildkit_version is compiled with Go 1.24 or newer, and this machine has no Go."
    echo 'Install Go and run scripts/docker up again, or do without: scripts/docker up --no-buildkit'
    return 1
  }
  program=$(buildkit_program)
  work=$(mktemp -d "$cache_dir/docker/buildkit-XXXXXX")
  cat >"$work/main.go" <<'GO'
//go:build tools

package tools

import (
	_ "github.com/moby/buildkit/cmd/buildctl"
	_ "github.com/moby/buildkit/cmd/buildkitd"
)
GO
  (
    cd "$work"
    export GOFLAGS=-buildvcs=false CGO_ENABLED=0
    "$go" mod init buildkit-of-opsctl
    "$go" get "github.com/moby/buildkit@$buildkit_version"
    "$go" get -tags tools .  || "$go" mod tidy
    nice -n 5 "$go" build -p 2 -trimpath -ldflags '-s -w' -o made/ \
      github.com/moby/buildkit/cmd/buildkitd github.com/moby/buildkit/cmd/buildctl
  )
  rm -rf "$(dirname "$program")"
  mv -T "$work/made" "$(dirname "$program")"
  chmod -R u+w "$work"
  rm -rf "$work"
}
