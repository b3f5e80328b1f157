package memory

// limits lists those of the process itself. A browser tells of none, but the memory of WebAssembly ends at 4 GB.
func limits() []limit {
	return []limit{{min(chosen, webAssembly), Used(), "the memory of WebAssembly", usableAddressSpace}}
}

const webAssembly = 4 << 30

// AddressSpaceShort reports whether the address space leaves too little for the next steps of a heap that is growing:
// see limits.
func AddressSpaceShort() bool { return false }
