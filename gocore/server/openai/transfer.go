package openai

// kvTransfer is what vLLM's prefill worker and its router tell each other of the KV of a prompt. A decode worker of
// another process does not read it: it computes the prompt itself, as vLLM's does when a transfer fails.
type kvTransfer struct {
	RemoteDecode  bool   `json:"do_remote_decode"`
	RemotePrefill bool   `json:"do_remote_prefill"`
	Engine        string `json:"remote_engine_id"`
	Blocks        []int  `json:"remote_block_ids"`
	Size          int    `json:"tp_size"`
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
