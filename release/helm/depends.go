//go:build depends

// Package depends names what this module is for, so that `go mod tidy` keeps it.
package depends

import _ "helm.sh/helm/v3/cmd/helm"
