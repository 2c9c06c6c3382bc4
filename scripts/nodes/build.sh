# Sourced by scripts/cluster after steps.sh: builds and fetches what a node of Kubernetes is made of,
# each part once a version for all checkouts, into $parts. Nothing of the system is changed, except
# that iptables and iproute2 are installed where they are missing.

kubernetes_version=v1.34.4
helm_versions=(v4.3.1 v3.22.0)
kwok_version=v0.8.0
coredns_version=v1.12.4
gateway_version=v1.6.1
monitoring_version=v0.85.0
# Helm and kwok need 1.26; the compiler that their release is built with matters to nothing else.
go_version=1.26.8

parts=$cache_dir/cluster
kubernetes=$parts/kubernetes-$kubernetes_version
debian=$parts/debian-12

use_own_go_caches() {
  # Not the user's: what is compiled here is needed once, and takes gigabytes.
  export GOPATH=$parts/go/path GOCACHE=$parts/go/cache GOTOOLCHAIN=local CGO_ENABLED=0
  export GOFLAGS='-trimpath -buildvcs=false'
  mkdir -p "$GOPATH" "$GOCACHE"
}

# present FOLDER: whether a part was made whole. Folders are put in place by one rename.
present() { [ -d "$1" ]; }

# into FOLDER COMMAND...: run it with $made as an empty folder, which becomes FOLDER when all went well.
into() {
  local folder=$1
  shift
  made=$(mktemp -d "$parts/making-XXXXXX")
  chmod 755 "$made"
  "$@"
  mv -T "$made" "$folder"
}

# The newest Go by the oldest means: Debian's go is too old to build with, but it can fetch the
# toolchain that the Go project publishes as a module, with its checksum checked.
go_is_new_enough() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || return 1
  [ "$(printf '%s\n' "go$go_version" "$version" | sort -V | head -n 1)" = "go$go_version" ]
}

fetch_go() {
  local old=$parts/go/debian module=golang.org/toolchain@v0.0.1-go$go_version.linux-$(go_architecture)
  mkdir -p "$old"
  download_packages "$old" golang-1.19-go
  GOFLAGS=-modcacherw GOROOT=$old/usr/lib/go-1.19 "$old/usr/lib/go-1.19/bin/go" mod download "$module"
  cp -r "$GOPATH/pkg/mod/$module/." "$made"
  # Modules carry no permission to execute.
  chmod -R u+w "$made"
  chmod 755 "$made"/bin/* "$made"/pkg/tool/*/*
}

go_architecture() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) echo "no build of Kubernetes is known for $(uname -m)" >&2 && return 1 ;;
  esac
}

require_go() {
  go_is_new_enough && return 0
  local own=$parts/go-$go_version
  present "$own" || step "Go $go_version" into "$own" fetch_go
  export PATH=$own/bin:$PATH GOROOT=$own
}

# Unpacked beside, not installed: an installed etcd, containerd or registry would start as a service.
download_packages() { # folder, packages
  local folder=$1 downloads
  shift
  downloads=$(mktemp -d "$parts/downloads-XXXXXX")
  chmod 777 "$downloads"
  (cd "$downloads" && { apt-get -q download "$@" || { refresh_lists && apt-get -q download "$@"; }; })
  local package
  for package in "$downloads"/*.deb; do
    dpkg-deb -x "$package" "$folder"
  done
  rm -rf "$downloads"
}

refresh_lists() { apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 update; }

fetch_debian() {
  download_packages "$made" etcd-server containerd runc containernetworking-plugins docker-registry
}

install_packages() {
  exec 8>/var/lock/opsctl-packages.lock
  flock 8
  local apt=(apt-get -q -y -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 install --no-install-recommends)
  export DEBIAN_FRONTEND=noninteractive
  "${apt[@]}" "$@" || { refresh_lists && "${apt[@]}" "$@"; }
}

build_kubernetes() {
  local name version="-X k8s.io/component-base/version" client="-X k8s.io/client-go/pkg/version"
  cd "$root/scripts/nodes/kubernetes"
  for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
    nice go build -mod=readonly -o "$made/$name" \
      -ldflags "-s -w $version.gitVersion=$kubernetes_version $client.gitVersion=$kubernetes_version" \
      "k8s.io/kubernetes/cmd/$name"
  done
}

build_helm() { # version
  local major=${1%%.*}
  GOBIN=$made nice go install -ldflags "-s -w -X helm.sh/helm/$major/internal/version.version=$1" \
    "helm.sh/helm/$major/cmd/helm@$1"
}

build_kwok() {
  local module
  GOBIN=$made nice go install -ldflags '-s -w' "sigs.k8s.io/kwok/cmd/kwok@$kwok_version"
  module=$(module_folder "sigs.k8s.io/kwok@$kwok_version")
  cp -r "$module/kustomize/stage" "$made/stage"
  chmod -R u+w "$made/stage"
}

build_coredns() {
  cd "$root/scripts/nodes/dns"
  nice go build -mod=readonly -o "$made/coredns" -ldflags '-s -w' .
}

module_folder() { # module@version
  GOFLAGS=-modcacherw go mod download -json "$1" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])'
}

fetch_gateway() {
  local module
  module=$(module_folder "sigs.k8s.io/gateway-api@$gateway_version")
  cp "$module"/config/crd/standard/*.yaml "$made"
  chmod u+w "$made"/*
}

fetch_monitoring() {
  local module name
  module=$(module_folder "github.com/prometheus-operator/prometheus-operator@$monitoring_version")
  for name in servicemonitors prometheusrules; do
    cp "$module/example/prometheus-operator-crd/monitoring.coreos.com_$name.yaml" "$made"
  done
  chmod u+w "$made"/*
}

build_images() {
  local name
  for name in pause light; do
    mkdir -p "$made/$name/tmp"
    (cd "$root/scripts/nodes/$name" && nice go build -ldflags '-s -w' -o "$made/$name/$name" .)
  done
}

images_key() { cat "$root"/scripts/nodes/{pause,light}/* | sha256sum | cut -c1-16; }

remove_go_caches() { chmod -R u+w "$parts/go" && rm -rf "$parts/go"; }

# Everything, in the order of use. A second clone waits here for the first and then finds all made.
require_parts() {
  mkdir -p "$parts"
  exec 7>"$parts/lock"
  flock 7
  # Of a build that was ended.
  rm -rf "$parts"/making-* "$parts"/downloads-*
  local missing=() version
  command -v iptables >/dev/null || missing+=(iptables)
  command -v ip >/dev/null || missing+=(iproute2)
  [ ${#missing[@]} -eq 0 ] || step "system packages: ${missing[*]}" install_packages "${missing[@]}"
  present "$debian" || step 'etcd, containerd, runc, CNI, registry' into "$debian" fetch_debian
  images=$parts/images-$(images_key)
  if ! all_built; then
    use_own_go_caches
    require_go
    present "$images" || step 'images of the tests' into "$images" build_images
    present "$kubernetes" || step "Kubernetes $kubernetes_version" into "$kubernetes" build_kubernetes
    present "$parts/coredns-$coredns_version" ||
      step "CoreDNS $coredns_version" into "$parts/coredns-$coredns_version" build_coredns
    for version in "${helm_versions[@]}"; do
      present "$parts/helm-$version" || step "Helm $version" into "$parts/helm-$version" build_helm "$version"
    done
    present "$parts/kwok-$kwok_version" || step "kwok $kwok_version" into "$parts/kwok-$kwok_version" build_kwok
    present "$parts/gateway-$gateway_version" ||
      step "Gateway API $gateway_version" into "$parts/gateway-$gateway_version" fetch_gateway
    present "$parts/monitoring-$monitoring_version" ||
      step "Prometheus operator's kinds $monitoring_version" into "$parts/monitoring-$monitoring_version" fetch_monitoring
    step 'removing what only the build needed' remove_go_caches
  fi
  flock -u 7
}

all_built() {
  local part
  for part in "$images" "$kubernetes" "${helm_versions[@]/#/$parts/helm-}" "$parts/kwok-$kwok_version" \
    "$parts/gateway-$gateway_version" "$parts/coredns-$coredns_version" \
    "$parts/monitoring-$monitoring_version"; do
    present "$part" || return 1
  done
}

# Where Python finds them.
export_parts() {
  export PART_kubernetes=$kubernetes PART_debian=$debian PART_images=$images
  export PART_coredns=$parts/coredns-$coredns_version PART_gateway=$parts/gateway-$gateway_version
  export PART_kwok=$parts/kwok-$kwok_version PART_monitoring=$parts/monitoring-$monitoring_version
}
