# Sourced by scripts/docker: base images, as nothing can be pulled where there is only a Debian mirror.

# The name of a base image in this machine's registry, and how it is pinned: …/base/bookworm@sha256:…
require_base_image() { # Debian release
  local pinned=$state_dir/base-$1
  if [ -s "$pinned" ] && skopeo inspect --tls-verify=false --raw "docker://$(<"$pinned")" >/dev/null 2>&1; then
    return 0
  fi
  local archive
  archive=$cache_dir/docker/base-$1-$(dpkg --print-architecture).tar
  [ -f "$archive" ] || step "base image $1 (debootstrap)" bootstrap_base "$1" "$archive"
  step "base image $1 to the registry" push_base "$1" "$archive"
}

bootstrap_base() { # Debian release, archive to make
  local work
  work=$(mktemp -d "$cache_dir/docker/base-XXXXXX")
  debootstrap --variant=minbase --include=ca-certificates "$1" "$work/root" "$(debian_mirror)"
  rm -rf "$work"/root/var/cache/apt/*.bin "$work"/root/var/cache/apt/archives/*.deb \
    "$work"/root/var/lib/apt/lists/* "$work"/root/var/log/* "$work"/root/var/cache/ldconfig/aux-cache
  tar --numeric-owner --sort=name -C "$work/root" -c . >"$work/base.tar"
  mv "$work/base.tar" "$2"
  rm -rf "$work"
}

push_base() { # Debian release, archive
  local name
  name=$(registry_address)/base/$1
  "$docker_cli" import --change 'CMD ["bash"]' "$2" "$name:latest"
  "$docker_cli" push --quiet "$name:latest"
  "$docker_cli" image inspect --format '{{index .RepoDigests 0}}' "$name:latest" >"$state_dir/base-$1.new"
  mv "$state_dir/base-$1.new" "$state_dir/base-$1"
}
