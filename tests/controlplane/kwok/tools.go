//go:build tools

// Package tools pins kwok, which plays the kubelet in the end-to-end tests.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
