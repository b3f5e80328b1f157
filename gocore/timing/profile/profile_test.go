package profile

import (
	"archive/zip"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/fstest"

	"dynosim/gocore/timing"
)

// tables returns the arrays of a file of tables.
func tables() map[string]numpy {
	return map[string]numpy{
		"prefill_isl":             floats("prefill_isl", 100, 1000, 4000),
		"prefill_ttft_ms":         floats("prefill_ttft_ms", 10, 40, 200),
		"decode_active_kv_tokens": floats("decode_active_kv_tokens", 0, 5000),
		"decode_context_length":   floats("decode_context_length", 1, 1000, 3000),
		"decode_itl": {name: "decode_itl", dtype: "<f8", shape: "(2, 3)",
			data: []float64{5, 6, 8, 7, 9, 12}},
	}
}

func tablesFile(t testing.TB, method uint16, arrays map[string]numpy) *fstest.MapFile {
	var list []numpy
	for _, a := range arrays {
		list = append(list, a)
	}
	return npz(t, method, list...)
}

func TestLoadTables(t *testing.T) {
	for name, change := range map[string]func(map[string]numpy){
		"as it is": func(map[string]numpy) {},
		"with others": func(a map[string]numpy) {
			a["note"] = numpy{name: "note", dtype: "<U3", shape: "()", data: []byte("abcdefghijkl")}
		},
		"big endian": func(a map[string]numpy) { isl := a["prefill_isl"]; isl.dtype = ">f8"; a["prefill_isl"] = isl },
		"column by column": func(a map[string]numpy) {
			a["decode_itl"] = numpy{"decode_itl", "<f8", true, "(2, 3)", []float64{5, 7, 6, 9, 8, 12}}
		},
	} {
		for _, method := range []uint16{zip.Store, zip.Deflate} {
			arrays := tables()
			change(arrays)
			g, err := Load(fstest.MapFS{"a/b.npz": tablesFile(t, method, arrays)}, "a/b.npz")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := g.PrefillMs(timing.PrefillShape{Requests: 1, MeanISL: 550}); got != 25 {
				t.Errorf("%s: prefill: got %v, want 25", name, got)
			}
			if got := g.DecodeMs(timing.DecodeShape{Requests: 1, ActiveTokens: 2500, MeanContext: 2000}); got != 8.75 {
				t.Errorf("%s: decode: got %v, want 8.75", name, got)
			}
		}
	}
}

func TestLoadTablesRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(map[string]numpy)
		want   string
	}{
		{func(a map[string]numpy) { delete(a, "decode_itl") },
			"decode_itl: got no such array, want it beside decode_active_kv_tokens, decode_context_length, " +
				"prefill_isl, prefill_ttft_ms"},
		{func(a map[string]numpy) {
			a["prefill_isl"] = numpy{"prefill_isl", "<i8", false, "(3,)", []int64{100, 1000, 4000}}
		},
			"prefill_isl: got dtype <i8, want float64"},
		{func(a map[string]numpy) {
			a["prefill_ttft_ms"] = numpy{"prefill_ttft_ms", "<f4", false, "(3,)", []float32{1, 2, 3}}
		},
			"prefill_ttft_ms: got dtype <f4, want float64"},
		{func(a map[string]numpy) { a["prefill_isl"] = floats("prefill_isl", 100, 4000, 1000) },
			"prefill_isl: got 1000 after 4000 at index 2, want values that increase"},
		{func(a map[string]numpy) {
			a["prefill_isl"] = numpy{"prefill_isl", "<f8", false, "(1, 3)", []float64{1, 2, 3}}
		},
			"prefill_isl: got shape (1, 3), want 1 dimension(s)"},
		{func(a map[string]numpy) { a["prefill_ttft_ms"] = floats("prefill_ttft_ms", 1, 2) },
			"prefill_ttft_ms: got 2 values, want 3, one for each prefill_isl"},
		{func(a map[string]numpy) {
			a["decode_itl"] = numpy{"decode_itl", "<f8", false, "(3, 2)", []float64{1, 2, 3, 4, 5, 6}}
		},
			"decode_itl: got shape (3, 2), want (2, 3), decode_active_kv_tokens by decode_context_length"},
		{func(a map[string]numpy) { a["decode_itl"] = floats("decode_itl", 1, 2, 3, 4, 5, 6) },
			"decode_itl: got shape (6,), want 2 dimension(s)"},
		{func(a map[string]numpy) { a["decode_context_length"] = floats("decode_context_length", 1, math.Inf(1)) },
			"decode_itl: got shape (2, 3), want (2, 2), decode_active_kv_tokens by decode_context_length"},
		{func(a map[string]numpy) { a["prefill_isl"] = numpy{"prefill_isl", "|O", false, "(1,)", []byte("x")} },
			"prefill_isl: got dtype |O, want numbers"},
	} {
		arrays := tables()
		c.change(arrays)
		_, err := Load(fstest.MapFS{"b.npz": tablesFile(t, zip.Deflate, arrays)}, "b.npz")
		if want := "b.npz: " + c.want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestLoadRefusesFiles(t *testing.T) {
	good := tablesFile(t, zip.Store, tables())
	damaged := append([]byte(nil), good.Data...)
	damaged[200]++
	files := fstest.MapFS{
		"text.json":   {Data: []byte("{}")},
		"text.npz":    {Data: []byte("{}")},
		"short.npz":   {Data: good.Data[:len(good.Data)-30]},
		"damaged.npz": {Data: damaged},
		"dir/x":       {Data: []byte("x")},
	}
	for name, want := range map[string]string{
		"none.npz":    "open none.npz: file does not exist",
		"text.json":   "text.json is not a profile: want a .npz file with",
		"text.npz":    "text.npz: not a NumPy archive: zip: not a valid zip file",
		"short.npz":   "short.npz: not a NumPy archive: zip: not a valid zip file",
		"damaged.npz": "damaged.npz: ",
		"dir": "neither selected_prefill_interpolation/raw_data.npz nor prefill_raw_data.json is there: want " +
			"a .npz file",
	} {
		if _, err := Load(files, name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

const (
	prefillNPZ  = "selected_prefill_interpolation/raw_data.npz"
	decodeNPZ   = "selected_decode_interpolation/raw_data.npz"
	prefillJSON = "prefill_raw_data.json"
	decodeJSON  = "decode_raw_data.json"
)

// folder returns a profile of which the reference's table is known, in both layouts.
func folder(t testing.TB) fstest.MapFS {
	return fstest.MapFS{
		prefillNPZ: npz(t, zip.Deflate,
			numpy{"prefill_isl", "<i8", false, "(4,)", []int64{128, 1024, 4096, 8192}},
			floats("prefill_ttft", 12, 30, 110, 230),
			floats("prefill_thpt_per_gpu", 1, 2, 3, 4)),
		decodeNPZ: npz(t, zip.Store,
			floats("x_kv_usage", .1, .1, .5, .5, .9, .9),
			floats("y_context_length", 1000, 4000, 1000, 4000, 1000, 4000),
			floats("z_itl", 6, 6.4, 9, 9.3, 12.5, 12.1),
			numpy{"max_kv_tokens", "<i8", false, "(1,)", []int64{100000}}),
		prefillJSON: {Data: []byte(`{"prefill_isl": [128, 1024, 4096, 8192], "prefill_ttft": [12, 30, 110, 230]}`)},
		decodeJSON: {Data: []byte(`{"x_kv_usage": [0.1, 0.1, 0.5, 0.5, 0.9, 0.9], "y_context_length": [1000, ` +
			`4000, 1000, 4000, 1000, 4000],
			"z_itl": [6, 6.4, 9, 9.3, 12.5, 12.1], "max_kv_tokens": 100000, "z_thpt_per_gpu": []}`)},
	}
}

func TestLoadFolder(t *testing.T) {
	for _, layout := range [][2]string{
		{prefillNPZ, decodeNPZ}, {prefillNPZ, decodeJSON}, {prefillJSON, decodeNPZ}, {prefillJSON, decodeJSON},
	} {
		all := folder(t)
		files := fstest.MapFS{}
		for _, name := range layout {
			files["deep/down/"+name] = all[name]
			files[name] = all[name]
		}
		for _, name := range []string{".", "deep/down"} {
			g, err := Load(files, name)
			if err != nil {
				t.Errorf("%v: %v", layout, err)
				continue
			}
			for _, c := range []struct {
				name      string
				got, want float64
			}{
				{"prefill of 128", g.PrefillMs(timing.PrefillShape{Requests: 1, MeanISL: 128}), 7.50056613},
				{"prefill of 8192", g.PrefillMs(timing.PrefillShape{Requests: 1, MeanISL: 8192}), 227.06351004},
				{"decode, empty", g.DecodeMs(timing.DecodeShape{Requests: 1, MeanContext: 1}), 5.4067351598173525},
				{"decode, full", g.DecodeMs(timing.DecodeShape{Requests: 1, ActiveTokens: 90000, MeanContext: 1}),
					197.08310502283217},
				{"decode, empty, long", g.DecodeMs(timing.DecodeShape{Requests: 1, MeanContext: 5000}),
					5.4067351598173525},
				{"decode, full, long", g.DecodeMs(timing.DecodeShape{Requests: 1, ActiveTokens: 90000,
					MeanContext: 5000}), 12.188584474885843},
			} {
				if math.Abs(c.got/c.want-1) > 1e-9 {
					t.Errorf("%v %s: %s: got %v, want %v", layout, name, c.name, c.got, c.want)
				}
			}
		}
	}
}

// TestNPZWins gives the older files other numbers.
func TestNPZWins(t *testing.T) {
	files := folder(t)
	files[prefillJSON] = &fstest.MapFile{Data: []byte("no JSON")}
	files[decodeJSON] = &fstest.MapFile{Data: []byte("no JSON")}
	if _, err := Load(files, "."); err != nil {
		t.Error(err)
	}
}

// TestFasterBatches: a plane that falls with the batch is flattened, and the other coefficients stay.
func TestFasterBatches(t *testing.T) {
	s := decodeSamples{
		kvUsage:       []float64{.1, .1, .5, .5, .9, .9},
		contextLength: []float64{1000, 4000, 1000, 4000, 1000, 4000},
		itlMs:         []float64{6, 7.4, 9, 10.3, 12.5, 14.1},
		maxKVTokens:   100000,
	}
	var table timing.Tables
	if err := s.fill(&table); err != nil {
		t.Fatal(err)
	}
	if got, want := table.DecodeITLMs[0], 5.75142694; math.Abs(got-want) > 1e-7 {
		t.Errorf("d0: got %v, want %v", got, want)
	}
	if got, want := table.DecodeITLMs[99*100]-table.DecodeITLMs[0],
		9.97659817e-08*90000*1000; math.Abs(got-want) > 1e-6 {
		t.Errorf("d2: got %v, want %v", got, want)
	}
}

func TestLoadFolderRefuses(t *testing.T) {
	const prefill = `{"prefill_isl": %s, "prefill_ttft": %s}`
	const decode = `{"x_kv_usage": %s, "y_context_length": %s, "z_itl": %s, "max_kv_tokens": %s}`
	for _, c := range []struct{ file, content, want string }{
		{prefillJSON, fmt.Sprintf(prefill, "[1,2,3]", "[3,2,1]"),
			"prefill_ttft: got durations that change by -0.001 s for each token, want longer ones for longer prompts"},
		{prefillJSON, fmt.Sprintf(prefill, "[128]", "[3]"),
			"prefill_isl: got only the value 128, want two or more different ones"},
		{prefillJSON, fmt.Sprintf(prefill, "[1.2,1.9]", "[3,4]"),
			"prefill_isl: got only the value 1, want two or more different ones"},
		{prefillJSON, fmt.Sprintf(prefill, "[]", "[3]"), "no samples"},
		{prefillJSON, fmt.Sprintf(prefill, "[1,2]", "[0,0]"), "prefill_ttft: got only zeros, want durations"},
		{prefillJSON, fmt.Sprintf(prefill, "[1,null]", "[1,2]"), "prefill_isl: got null at index 1, want numbers"},
		{prefillJSON, fmt.Sprintf(prefill, `[1,"2"]`, "[1,2]"), "prefill_isl: got a string at index 1, want numbers"},
		{prefillJSON, fmt.Sprintf(prefill, "[[1,2]]", "[1,2]"), "prefill_isl: got a list at index 0, want numbers"},
		{prefillJSON, `{"prefill_isl": [1, 2]}`, "prefill_ttft: got nothing, want a list of numbers"},
		{prefillJSON, `[]`, "json: "},
		{prefillJSON, fmt.Sprintf(prefill, "[1,NaN]", "[1,2]"), "jsontext: invalid character 'N'"},
		{decodeJSON, fmt.Sprintf(decode, "[0.1,0.9]", "[10,10]", "[2,1]", "1000"),
			"z_itl: got durations that change by"},
		{decodeJSON, fmt.Sprintf(decode, "[0,0]", "[10,10]", "[2,1]", "1000"),
			"x_kv_usage: got at most 0 tokens in use, want samples with KV tokens in use"},
		{decodeJSON, fmt.Sprintf(decode, "[0.1,0.2]", "[1,1]", "[2,1]", "10"),
			"y_context_length: got no sample with more than one token of context, want longer contexts"},
		{decodeJSON, fmt.Sprintf(decode, "[0.1,0.2]", "[10,10]", "[0,0]", "1000"),
			"z_itl: got only zeros, want durations"},
		{decodeJSON, fmt.Sprintf(decode, "[0.1,0.2]", "[10,10]", "[1,2]", "[]"),
			"max_kv_tokens: got no value, want one"},
		{decodeJSON, fmt.Sprintf(decode, "[]", "[10,10]", "[1,2]", "1"), "no samples"},
	} {
		all := folder(t)
		files := fstest.MapFS{prefillJSON: all[prefillJSON], decodeJSON: all[decodeJSON]}
		files[c.file] = &fstest.MapFile{Data: []byte(c.content)}
		_, err := Load(files, ".")
		if want := c.file + ": " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	files := folder(t)
	files[decodeNPZ] = npz(t, zip.Store, floats("x_kv_usage", .1, math.NaN()), floats("y_context_length", 1, 2),
		floats("z_itl", 1, 2), floats("max_kv_tokens", 10))
	if _, err := Load(files, "."); err == nil ||
		err.Error() != decodeNPZ+": x_kv_usage: got NaN at index 1, want finite values" {
		t.Errorf("got %v", err)
	}
}
