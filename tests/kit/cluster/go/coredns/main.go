// Command coredns is CoreDNS with the plugins that a test cluster without a way out needs, and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order in which plugins see a question; CoreDNS's own list is made when its full set is generated.
	dnsserver.Directives = []string{"bind", "ready", "errors", "cache", "hosts", "kubernetes"}
	coremain.Run()
}
