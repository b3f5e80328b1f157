package openai

// kvTransfer is what vLLM's prefill worker and its router tell each other of the KV of a prompt, and what that router
// tells the decode worker then, which takes the prompt over without computing it.
type kvTransfer struct {
	RemoteDecode  bool   `json:"do_remote_decode"`
	RemotePrefill bool   `json:"do_remote_prefill"`
	Engine        string `json:"remote_engine_id"`
	Blocks        []int  `json:"remote_block_ids"`
	Size          int    `json:"tp_size"`
}

// imports reports whether the KV of the prompt comes from another server.
func (k *kvTransfer) imports() bool { return k != nil && k.RemotePrefill && len(k.Blocks) > 0 }

// check refuses a hand-off that the engines of a model cannot take part in.
func (k *kvTransfer) check(m *Model) error {
	switch {
	case k == nil || !k.RemoteDecode && !k.RemotePrefill:
		return nil
	case k.RemoteDecode && k.RemotePrefill:
		return badRequest("kv_transfer_params",
			"do_remote_decode and do_remote_prefill are both true, want one of them")
	case m.elsewhere():
		return badRequest("kv_transfer_params",
			"not supported: the workers of this frontend hand prompts over by themselves")
	case k.imports() && !m.Imports:
		return badRequest("kv_transfer_params",
			"do_remote_prefill is not supported by these engines, want workers of one pool with scheduler dynamo")
	}
	return nil
}

// offer returns what the answer says of the KV of its prompts, if the request says that another worker decodes; else
// nil. Blocks are numbered by their places in the prompts.
func (k *kvTransfer) offer(s *Server, t target, questions []question) *kvTransfer {
	if k == nil || !k.RemoteDecode {
		return nil
	}
	offered := &kvTransfer{RemotePrefill: true, Engine: s.engineID, Blocks: []int{}, Size: 1}
	size := t.model.Args.BlockSize
	for i := range questions {
		for range (len(questions[i].tokens) + size - 1) / size {
			offered.Blocks = append(offered.Blocks, len(offered.Blocks))
		}
	}
	return offered
}
