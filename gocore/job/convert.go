package job

import (
	"bytes"
	"io"

	"dynosim/gocore/strictjson"
	"dynosim/gocore/workload"
)

var conversion = strictjson.Schema{Fields: []strictjson.Field{
	{Name: "input_path", Type: strictjson.List{}, Required: true, NotNull: true},
	{Name: "output_file", Type: strictjson.Text{NonEmpty: true}, Required: true, NotNull: true},
	{Name: "agentic", Type: strictjson.Bool{}, Default: false},
}}

// Convert writes recordings of requests as a trace. config is a JSON object: input_path lists the recordings, "-" being
// standard input, output_file is where the trace goes, and agentic asks for one whose requests wait for each other. The
// result is a summary of one to four lines. Errors have a Kind, as those of Run.
func Convert(config string, m *Monitor) (summary string, err error) {
	o, err := strictjson.Decode(config, conversion)
	if err != nil {
		return "", err
	}
	if err := strictjson.Join(o.RangeErrors()); err != nil {
		return "", err
	}
	m.bound()
	sources, release, err := openSources("input_path", o.List("input_path"))
	defer release()
	if err != nil {
		return "", err
	}
	var trace bytes.Buffer // not a draft, which would stay when the run is abandoned while it waits for a pipe
	c, err := workload.ConvertDynamo(&trace, sources, o.Bool("agentic"), m.poll)
	if err != nil {
		return "", err
	}
	err = writeProduced("output_file", o.Text("output_file"), m.poll, func(file io.Writer) error {
		_, err := trace.WriteTo(file)
		return err
	})
	return c.String(), err
}
