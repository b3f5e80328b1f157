package workload

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestStrayKeys(t *testing.T) {
	w := mustLoad(t, `{"output_length":1,"hash_ids":[1,2],"inputlength":9,"model":"m","request_kind":"x","wait_for":[]}
{"output_length":1,"hash_ids":[1,2],"inputlength":null,"Session-ID":"a"}
{"output_length":1,"hash_ids":[1,2],"input_length":9,"tool_wait_ms":1}`)
	want := []Stray{{"inputlength", "input_length", 2}, {"Session-ID", "session_id", 1}}
	if !reflect.DeepEqual(w.Notes.Strays, want) {
		t.Errorf("got %+v, want %+v", w.Notes.Strays, want)
	}
	const text = `2 of 3 requests: the key "inputlength" is not read, did you mean "input_length"?`
	if texts := w.Notes.Texts(3); !slices.Contains(texts, text) {
		t.Errorf("got %q", texts)
	}
}

// TestStrayKeysOfOtherFormats: a column that another format of rows reads is no slip.
func TestStrayKeysOfOtherFormats(t *testing.T) {
	for key := range agenticKeys {
		strays := newStrayKeys(mooncakeKeys)
		if _, known := mooncakeKeys[key]; known {
			continue
		}
		strays.record([]byte(key))
		if len(strays.found) > 0 {
			t.Errorf("%s: got %+v", key, strays.found)
		}
	}
}

func TestStrayKeysAreBounded(t *testing.T) {
	strays := newStrayKeys(mooncakeKeys)
	for i := range 3 * maxStrayKeys {
		strays.record(fmt.Appendf(nil, "column %d", i))
	}
	strays.record([]byte(strings.Repeat("x", 1<<20)))
	if len(strays.seen) != maxStrayKeys || len(strays.found) != 0 {
		t.Errorf("got %d keys, %d strays", len(strays.seen), len(strays.found))
	}
}
