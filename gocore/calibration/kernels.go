package calibration

import (
	"cmp"
	"fmt"
	"strings"

	"dynosim/gocore/aic"
	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
)

// Kernels are those whose durations stand in for the kernels of an engine, of which the AIC SDK has no data, or wrong
// ones: of another backend, or of other data types. "" stays as it is.
type Kernels struct {
	Backend, GEMM, MoE, FMHA string
}

// kernelFields returns what the kernels of an entry may say: engine arguments.
func kernelFields() []strictjson.Field {
	text := strictjson.Text{NonEmpty: true}
	return []strictjson.Field{
		{Name: "aic_backend", Type: text}, {Name: "aic_gemm_dtype", Type: text}, {Name: "aic_moe_dtype", Type: text},
		{Name: "aic_fmha_dtype", Type: text},
	}
}

// readKernels returns those of an entry.
func readKernels(entry *strictjson.Object) Kernels {
	given := entry.Object("kernels")
	if given == nil {
		return Kernels{}
	}
	return Kernels{
		given.Text("aic_backend"), aic.DataType(given, "aic_gemm_dtype"), aic.DataType(given, "aic_moe_dtype"),
		aic.DataType(given, "aic_fmha_dtype"),
	}
}

// instead lets an engine ask for durations of these kernels. words says so, "" if they are its own. Data types that the
// arguments give stay, and so does a backend that is not the engine's or whose version they give.
func (k Kernels) instead(args *engineargs.Args) (words string) {
	asked := args.AIC
	if k.Backend != "" && asked.Backend == args.EngineType.String() && asked.Version == "" {
		asked.Backend = k.Backend
	}
	asked.Types.GEMM = cmp.Or(asked.Types.GEMM, k.GEMM)
	asked.Types.MoE = cmp.Or(asked.Types.MoE, k.MoE)
	asked.Types.FMHA = cmp.Or(asked.Types.FMHA, k.FMHA)
	if asked.Backend == "" || asked == args.AIC {
		return ""
	}
	args.Kernels = asked
	return fmt.Sprintf("durations of other kernels (%s)", asked.KernelsBeside(args.AIC))
}

// OtherKernels reports whether measurements of an engine were compared with durations of other kernels than its own,
// by the entry of the shipped profile for it.
func OtherKernels(args engineargs.Args) bool {
	shipped := Shipped()
	place := shipped.Choose(KeyOf(args))
	return place >= 0 && shipped.Entries[place].Kernels.instead(&args) != ""
}

// Advised adds to an error of the SDK, that it has no predictions for an engine, what the shipped profile has in their
// place. It returns all other errors as they are.
func Advised(err error, args engineargs.Args) error {
	if err == nil || args.Calibration != "" || !strings.Contains(err.Error(), "has no predictions for") ||
		!OtherKernels(args) {
		return err
	}
	return fmt.Errorf(`%w; with "calibration": "auto" durations are of kernels that stand in`, err)
}
