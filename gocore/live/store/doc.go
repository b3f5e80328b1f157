// Package store keeps discovery records. [File] keeps them in files that all processes of a host see, [Memory] in this
// process alone. The packages etcd and kubernetes below it keep them where processes of all hosts see them.
package store
