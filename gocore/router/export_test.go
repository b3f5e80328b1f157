package router

// UnknownRemovals returns how many blocks were removed by a worker that did not have them, as far as the router knew.
// Above 0, an engine has made a slip; the router ignores it.
func (k *KV) UnknownRemovals() int64 {
	all := k.index.unknownRemovals
	for g := range k.beside.groups {
		all += k.beside.groups[g].unknownRemovals
	}
	if k.lower != nil {
		all += k.lower.host.unknownRemovals + k.lower.shared.unknownRemovals + k.lower.storage.unknownRemovals
	}
	return all
}
