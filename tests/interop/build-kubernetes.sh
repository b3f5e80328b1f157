#!/bin/sh
# build-kubernetes.sh VERSION FOLDER: builds the API server and the controllers of Kubernetes from their Go module.
#
# The module takes its libraries from folders of its own, which the module proxy does not serve; they are released as
# modules too, with the version 0.x.y for 1.x.y.
set -eu
version=$1
target=$(realpath -m "$2")
programs="kube-apiserver kube-controller-manager"
mkdir -p "$target/source"
cd "$target/source"
printf 'module scratch\ngo 1.26.0\nrequire k8s.io/kubernetes v%s\n' "$version" > go.mod
echo 'package scratch' > scratch.go
for program in $programs; do
	printf 'import _ "k8s.io/kubernetes/cmd/%s/app"\n' "$program" >> scratch.go
done
go mod download "k8s.io/kubernetes@v$version"
sed -n 's|^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => ./staging.*|\1|p' "$(go env GOMODCACHE)/k8s.io/kubernetes@v$version/go.mod" |
	while read -r library; do
		echo "replace $library => $library v0.${version#1.}" >> go.mod
	done
for program in $programs; do
	go get "k8s.io/kubernetes/cmd/$program@v$version"
done
for program in $programs; do
	go build -o "$target/$program" "k8s.io/kubernetes/cmd/$program"
done
