// Dns is CoreDNS with the plugins that a node's Corefile names. The release has those of all
// clouds too, which take longer to compile than the rest of a node's programs but Kubernetes.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}
