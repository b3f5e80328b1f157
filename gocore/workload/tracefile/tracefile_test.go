package tracefile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestParseSeconds(t *testing.T) {
	for _, c := range []struct {
		text string
		ns   int64
		ok   bool
	}{
		{"0", 0, true},
		{"0.052", 52_000_000, true},
		{"-1.5", -1_500_000_000, true},
		{"1787267980.0827403", 1787267980_082740300, true},
		{"353399.725848632", 353399_725848632, true},
		{"0.0000000005", 1, true},
		{"0.00000000049", 0, true},
		{"0.9999999999", 1_000_000_000, true},
		{".5", 500_000_000, true},
		{"5.", 5_000_000_000, true},
		{"1e3", 1000_000_000_000, true},
		{"2305843008", 2305843008_000000000, true},
		{"", 0, false},
		{".", 0, false},
		{"-", 0, false},
		{"1 s", 0, false},
		{"NaN", 0, false},
		{"inf", 0, false},
		{"1e10", 0, false},
		{"99999999999", 0, false},
	} {
		ns, ok := ParseSeconds(c.text)
		if ok != c.ok || ok && ns != c.ns {
			t.Errorf("%q: got %d, %v, want %d, %v", c.text, ns, ok, c.ns, c.ok)
		}
	}
}

func TestParseTimestamp(t *testing.T) {
	for _, c := range []struct {
		text, layout string // of package time; "" if it is no timestamp
		zoned        bool
	}{
		{"2023-11-16 18:17:03.9799600", "2006-01-02 15:04:05", false},
		{"2024-05-10 00:00:00.009930+00:00", "2006-01-02 15:04:05Z07:00", true},
		{"2024-05-10T00:00:00+05:30", "2006-01-02T15:04:05Z07:00", true},
		{"2024-05-10 00:00:00-0800", "2006-01-02 15:04:05Z0700", true},
		{"2024-05-10T00:00:00Z", "2006-01-02T15:04:05Z07:00", true},
		{"2024-02-29 23:59:59.999999999", "2006-01-02 15:04:05", false},
		{"1969-12-31 23:59:59", "2006-01-02 15:04:05", false},
		{"2000-03-01 00:00:00", "2006-01-02 15:04:05", false},
		{"1900-02-28 00:00:00", "2006-01-02 15:04:05", false},
		{"1900-02-29 00:00:00", "", false},
		{"2023-13-01 00:00:00", "", false},
		{"2023-04-31 00:00:00", "", false},
		{"2023-04-30 24:00:00", "", false},
		{"2023-04-30 00:00:00.", "", false},
		{"2023-04-30 00:00:00 CET", "", false},
		{"2023-04-30 00:00:00+2", "", false},
		{"2023-04-30", "", false},
		{"9999-04-30 00:00:00", "", false},
		{"2023/04/30 00:00:00", "", false},
		{"+023-04-30 00:00:00", "", false},
	} {
		ns, zoned, ok := ParseTimestamp(c.text)
		if ok != (c.layout != "") || zoned != c.zoned && ok {
			t.Errorf("%q: got %v, %v", c.text, ok, zoned)
		}
		if !ok || c.layout == "" {
			continue
		}
		if want, err := time.Parse(c.layout, c.text); err != nil || want.UnixNano() != ns {
			t.Errorf("%q: got %d, want %d (%v)", c.text, ns, want.UnixNano(), err)
		}
	}
}

// TestParseTimestampEveryDay compares all days with package time.
func TestParseTimestampEveryDay(t *testing.T) {
	for day := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() <= 2040; day = day.AddDate(0, 0, 1) {
		if ns, _, ok := ParseTimestamp(day.Format("2006-01-02 15:04:05")); !ok || ns != day.UnixNano() {
			t.Fatalf("%v: got %d, %v", day, ns, ok)
		}
	}
}

// readers yield the same text in other pieces.
func readers(text string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":        strings.NewReader(text),
		"byte by byte": iotest.OneByteReader(strings.NewReader(text)),
		"halves":       iotest.HalfReader(strings.NewReader(text)),
		"data and end": iotest.DataErrReader(strings.NewReader(text)),
	}
}

func TestPythonNumbers(t *testing.T) {
	text := "\ufeff" + `{"a": [NaN, Infinity, -Infinity, -1], "b\"NaN": "Infinity NaN \\",` + "\n" + `"c": Infinity}`
	want := `[a:"" "inf" "-inf" -1 b"NaN:"Infinity NaN \\" c:"inf"]`
	for name, r := range readers(text) {
		d, err := OpenDocument("f", r, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = d.Members(func(key string) error {
			if !d.IsArray() {
				value, err := d.raw()
				got = append(got, fmt.Sprintf("%s:%s", key, value))
				return err
			}
			return d.Array(func(i int) error {
				value, err := d.raw()
				if i == 0 {
					got = append(got, key+":"+string(value))
				} else {
					got = append(got, string(value))
				}
				return err
			})
		})
		if err != nil || fmt.Sprint(got) != want || d.Line() != 2 || d.More() {
			t.Errorf("%s: got %v, line %d, %v, want %s", name, got, d.Line(), err, want)
		}
	}
}

func TestDocumentFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"{\"n\": 1}\n\n{\"n\":\n-1}", "f line 4: n: got -1, want an integer from 0 to 9"},
		{`{"n": 10}`, "f line 1: n: got 10, want an integer from 0 to 9"},
		{`{"n": 1.5}`, "f line 1: n: got 1.5, want an integer"},
		{`{"n": 1, "n": 1}`, "f line 1: n: given twice, want it once"},
		{`{"n": "` + strings.Repeat("long ", 20) + `"}`, "long..., want an integer from 0 to 9"},
		{`5`, "f line 1: got 5, want an object"},
		{`{"n": {}}`, "f line 1: n: got {}, want an integer"},
		{`{"o": [{}, {"n": []}]}`, "f line 1: o[1].n: got [], want an integer"},
		{`{"n"`, "f line 1: broken JSON: the file ends too early"},
		{`{"n" 1}`, "f line 1: broken JSON: "},
		{"{\"n\": \"\xff\"}", "f line 1: broken JSON: "},
		{`{"x": ` + strings.Repeat("[", 20000), "f line 1: broken JSON: "},
	} {
		d, err := OpenDocument("f", strings.NewReader(c.text), nil)
		if err != nil {
			t.Fatal(err)
		}
		count := Key{Name: "n", Read: func() error { _, err := d.Count(9); return err }}
		keys := []Key{count, {Name: "o", Read: func() error {
			return d.Array(func(int) error { _, err := d.Object([]Key{count}); return err })
		}}}
		for err == nil && d.More() {
			_, err = d.Object(keys)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: got %v, want %q", c.text, err, c.want)
		}
	}
}

// TestDocumentBounds reads a value that never ends.
func TestDocumentBounds(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"x": "`), endlessReader{})
	d, err := OpenDocument("f", endless, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Object(nil); err == nil ||
		!strings.Contains(err.Error(), "f line 1: longer than 67108864 bytes, the limit for one value") {
		t.Errorf("got %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("the disk is gone")
	r := io.MultiReader(strings.NewReader("a,b\n1,2\n"), iotest.ErrReader(broken))
	table, err := OpenTable("f", r)
	for err == nil {
		_, err = table.Next()
	}
	if want := "f line 3: cannot be read: the disk is gone"; err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	d, err := OpenDocument("f", io.MultiReader(strings.NewReader(`{"x": `), iotest.ErrReader(broken)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Object(nil); err == nil || err.Error() != "f line 1: cannot be read: the disk is gone" {
		t.Errorf("got %v", err)
	}
}

func TestTable(t *testing.T) {
	text := "\ufeffA, b ,\"c,d\"\r\n\n1,\"2, 3\",x\r\n 4 , 5.0 ,\n"
	table, err := OpenTable("f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	at, err := table.Columns([]string{"a", "B"}, []string{"c,d", "e"})
	if err != nil || fmt.Sprint(at) != "[0 1 2 -1]" {
		t.Fatalf("got %v, %v", at, err)
	}
	var got []string
	for {
		more, err := table.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		got = append(got, fmt.Sprintf("%d: %s|%s|%s|%s", table.Line(), table.Cell(0), table.Cell(1), table.Cell(2),
			table.Cell(-1)))
	}
	if want := "[3: 1|2, 3|x| 4: 4|5.0||]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
