//go:build tools

// Package tools pins Helm, which the chart's tests render with.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
