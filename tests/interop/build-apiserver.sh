#!/bin/sh
# build-apiserver.sh VERSION PROGRAM: builds the API server of Kubernetes from its Go module.
#
# The module takes its libraries from folders of its own, which the module proxy does not serve; they are released as
# modules too, with the version 0.x.y for 1.x.y.
set -eu
version=$1
program=$(realpath -m "$2")
folder=$(dirname "$program")/source
mkdir -p "$folder"
cd "$folder"
printf 'module scratch\ngo 1.26.0\nrequire k8s.io/kubernetes v%s\n' "$version" > go.mod
printf 'package scratch\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n' > scratch.go
go mod download "k8s.io/kubernetes@v$version"
sed -n 's|^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => ./staging.*|\1|p' "$(go env GOMODCACHE)/k8s.io/kubernetes@v$version/go.mod" |
	while read -r library; do
		echo "replace $library => $library v0.${version#1.}" >> go.mod
	done
go get "k8s.io/kubernetes/cmd/kube-apiserver@v$version"
go build -o "$program" k8s.io/kubernetes/cmd/kube-apiserver
