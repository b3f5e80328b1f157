package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"block_size", "num_gpu_blocks", "max_num_seqs", "dp_size", "input_length"}
	tests := []struct{ typed, want string }{
		{"blok_size", "block_size"},
		{"block-size", "block_size"},
		{"blocksize", "block_size"},
		{"BlockSize", "block_size"},
		{"inputlength", "input_length"},
		{"num_gpu_block", "num_gpu_blocks"},
		{"max_num_", "max_num_seqs"},
		{"input_len", "input_length"},
		{"input", ""},
		{"max_seqs", ""},
		{"dpsize", "dp_size"},
		{"tp_size", "dp_size"},
		{"size", ""},
		{"", ""},
		{strings.Repeat("x", 1<<20), ""},
	}
	for _, test := range tests {
		if got := Nearest(test.typed, names); got != test.want {
			t.Errorf("%.20q: got %q, want %q", test.typed, got, test.want)
		}
	}
	if d := distance("kitten", "sitting"); d != 3 {
		t.Errorf("kitten to sitting: got %d, want 3", d)
	}
}

func TestEnding(t *testing.T) {
	names := []string{"http-port", "http-host", "listen-host", "model_path"}
	for typed, want := range map[string]string{"port": "http-port", "path": "model_path", "host": "", "ort": "",
		"": ""} {
		if got := Ending(typed, names); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
}

func TestOffer(t *testing.T) {
	few := []string{"size", "weight"}
	many := []string{"block_size", "num_gpu_blocks", "max_num_seqs", "dp_size", "enable_prefix_caching",
		"router_ttl_secs", "sizes"}
	long := []string{strings.Repeat("a", 100), strings.Repeat("b", 100)}
	tests := []struct {
		typed string
		names []string
		want  string
	}{
		{"x", few, "want one of size, weight"},
		{"size", many, "want one of 7, such as sizes, dp_size, block_size"},
		{"caching", many, "want one of 7, such as enable_prefix_caching, dp_size, sizes"},
		{strings.Repeat("x", 1<<20), many, "want one of 7, such as block_size, num_gpu_blocks, max_num_seqs"},
		{"b", long, "want one of 2, such as " + strings.Repeat("b", 100)},
		{"x", nil, "want one of "},
	}
	for _, test := range tests {
		if got := Offer(test.typed, test.names); got != test.want {
			t.Errorf("%.20q: got  %s\nwant %s", test.typed, got, test.want)
		}
	}
}
