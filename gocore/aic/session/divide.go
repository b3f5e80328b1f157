package session

import (
	"fmt"
	"math"
	"strings"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/models"
	"dynosim/gocore/strictjson"
)

// mostSeqs is how many requests vLLM and SGLang let run where the engine arguments have no limit.
const mostSeqs = 1024

// divide estimates the blocks of one of the attention data-parallel ranks as the engine does, from the model's
// config.json.
func (s *Set) divide(session aic.Session, args engineargs.Args, ranks int) (int, models.Memory, error) {
	config := session.Config
	of := args.Capacity
	switch {
	case config.Backend != "vllm" && config.Backend != "sglang":
		return 0, models.Memory{}, unknown("sdk with aic_backend " + config.Backend)
	case of.GPUGiB == 0:
		return 0, models.Memory{}, unknown("sdk: the memory of " + config.System + " is not known")
	}
	text, quantization, err := s.client.ModelConfig(session)
	if err != nil {
		return 0, models.Memory{}, err
	}
	architecture, err := models.ReadArchitecture(config.Model, []byte(text), []byte(quantization))
	if err == nil {
		architecture, err = architecture.With(config.Types.GEMM, config.Types.MoE)
	}
	if err != nil {
		return 0, models.Memory{}, unknown(fmt.Sprintf("sdk: of %s, %v", config.Model, err))
	}
	seqs := of.MaxSeqs
	if seqs == math.MaxInt {
		seqs = mostSeqs * ranks
	}
	blackwell := strings.Contains(config.System, "b") || strings.HasPrefix(config.System, "rtx_pro")
	memory, err := architecture.Estimate(models.Serving{
		SGLang: config.Backend == "sglang", Release: of.Release, Hopper: !blackwell,
		GPUGiB: of.GPUGiB, Fraction: of.Fraction, TP: config.TP, ExpertTP: config.MoETP, ExpertEP: config.MoEEP,
		MaxTokens: max(1, of.MaxTokens/ranks), MaxSeqs: max(1, seqs/ranks),
		FP8: config.Types.KVCache == "fp8" || config.Types.KVCache == "" && architecture.KVInFP8(),
	})
	if err != nil {
		return 0, memory, fmt.Errorf("num_gpu_blocks: got nothing, want it given, or more GPUs (aic_tp_size): %w", err)
	}
	return memory.Tokens / of.BlockSize, memory, nil
}

func unknown(want string) error {
	return &strictjson.FieldError{Field: "kv_pool_estimate", Got: `"engine"`, Want: want}
}
