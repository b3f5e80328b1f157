package calibration

import (
	"fmt"
	"strings"

	"dynosim/gocore/engineargs"
	"dynosim/gocore/strictjson"
)

// Kernels are those whose durations stand in for the kernels of an engine, of which the AIC SDK has no data, or wrong
// ones: of another backend, or of other data types. "" stays as it is.
type Kernels struct {
	Backend, GEMM, MoE string
}

// kernelFields returns what the kernels of an entry may say: engine arguments.
func kernelFields() []strictjson.Field {
	text := strictjson.Text{NonEmpty: true}
	return []strictjson.Field{
		{Name: "aic_backend", Type: text}, {Name: "aic_gemm_dtype", Type: text}, {Name: "aic_moe_dtype", Type: text},
	}
}

// readKernels returns those of an entry.
func readKernels(entry *strictjson.Object) Kernels {
	given := entry.Object("kernels")
	if given == nil {
		return Kernels{}
	}
	return Kernels{given.Text("aic_backend"), given.Text("aic_gemm_dtype"), given.Text("aic_moe_dtype")}
}

// instead lets an engine ask for durations of these kernels. words says so, "" if they are its own. Data types that the
// arguments give stay, and so does a backend that is not the engine's or whose version they give.
func (k Kernels) instead(args *engineargs.Args) (words string) {
	asked := args.AIC
	var said []string
	if k.Backend != "" && k.Backend != asked.Backend && asked.Backend == args.EngineType.String() && asked.Version == "" {
		asked.Backend = k.Backend
		said = append(said, "aic_backend "+k.Backend)
	}
	for _, part := range []struct {
		name, kernel string
		asked        *string
	}{
		{"aic_gemm_dtype", k.GEMM, &asked.Types.GEMM}, {"aic_moe_dtype", k.MoE, &asked.Types.MoE},
	} {
		if part.kernel != "" && *part.asked == "" {
			*part.asked = part.kernel
			said = append(said, part.name+" "+part.kernel)
		}
	}
	if said == nil {
		return ""
	}
	args.Kernels = asked
	return fmt.Sprintf("durations of other kernels (%s)", strings.Join(said, ", "))
}

// OtherKernels reports whether an engine's own kernels are not those that measurements of it were compared with: the
// shipped profile knows which these were.
func OtherKernels(args engineargs.Args) bool {
	shipped := Shipped()
	place := shipped.Choose(KeyOf(args))
	return place >= 0 && shipped.Entries[place].Kernels.instead(&args) != ""
}
