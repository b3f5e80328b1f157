package profile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

// numpy is an array to be written as NumPy writes it. data is in storage order.
type numpy struct {
	name, dtype string
	fortran     bool
	shape       string
	data        any
}

func floats(name string, values ...float64) numpy {
	return numpy{name: name, dtype: "<f8", shape: fmt.Sprintf("(%d,)", len(values)), data: values}
}

func (a numpy) bytes(t testing.TB) []byte {
	t.Helper()
	order := map[bool]string{true: "True", false: "False"}[a.fortran]
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", a.dtype, order, a.shape)
	header += string(bytes.Repeat([]byte(" "), 63-(10+len(header))%64)) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(header)))
	b.WriteString(header)
	var endian binary.ByteOrder = binary.LittleEndian
	if a.dtype[0] == '>' {
		endian = binary.BigEndian
	}
	if err := binary.Write(&b, endian, a.data); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npz returns an archive with these arrays.
func npz(t testing.TB, method uint16, arrays ...numpy) *fstest.MapFile {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, a := range arrays {
		w, err := z.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(a.bytes(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b.Bytes()}
}

func TestReadNPY(t *testing.T) {
	for _, c := range []struct {
		in   numpy
		want []float64
	}{
		{floats("f8", 1.5, -2), []float64{1.5, -2}},
		{numpy{dtype: ">f8", shape: "(2,)", data: []float64{1.5, -2}}, []float64{1.5, -2}},
		{numpy{dtype: "<f4", shape: "(2,)", data: []float32{1.5, -2}}, []float64{1.5, -2}},
		{numpy{dtype: "<i8", shape: "(2,)", data: []int64{945029, -2}}, []float64{945029, -2}},
		{numpy{dtype: ">i4", shape: "(2,)", data: []int32{945029, -2}}, []float64{945029, -2}},
		{numpy{dtype: "<u2", shape: "(1,)", data: []uint16{65535}}, []float64{65535}},
		{numpy{dtype: "|i1", shape: "(2,)", data: []int8{-128, 3}}, []float64{-128, 3}},
		{numpy{dtype: "<i8", shape: "()", data: []int64{7}}, []float64{7}},
		{numpy{dtype: "<f8", shape: "(0,)", data: []float64{}}, []float64{}},
		{numpy{dtype: "<f8", shape: "(2, 3)", data: []float64{1, 2, 3, 4, 5, 6}}, []float64{1, 2, 3, 4, 5, 6}},
		{numpy{dtype: "<f8", shape: "(2, 3)", fortran: true, data: []float64{1, 4, 2, 5, 3, 6}},
			[]float64{1, 2, 3, 4, 5, 6}},
	} {
		got, err := readNPY(c.in.bytes(t))
		if err != nil || !slices.Equal(got.values, c.want) {
			t.Errorf("%s %s fortran %t: got %v, %v, want %v", c.in.dtype, c.in.shape, c.in.fortran, got.values, err,
				c.want)
		}
	}
}

func TestReadNPYRefuses(t *testing.T) {
	good := floats("x", 1, 2, 3).bytes(t)
	longHeader := slices.Clone(good)
	longHeader[6] = 2
	binary.LittleEndian.PutUint32(longHeader[8:], 1<<31)
	for _, c := range []struct {
		in   []byte
		want string
	}{
		{nil, "EOF"},
		{[]byte("hello, world, this is no array"), "npy: not a valid NumPy file format"},
		{good[:40], "the header is damaged"},
		{good[:len(good)-1], "got 23 bytes of values, want 24 for dtype <f8 and shape (3,)"},
		{append(slices.Clone(good), 0), "got 25 bytes of values, want 24 for dtype <f8 and shape (3,)"},
		{bytes.Replace(good, []byte("'shape': (3,)"), []byte("'shape': 3   "), 1),
			"got 24 bytes of values, want 8 for dtype <f8 and shape ()"},
		{bytes.Replace(good, []byte("\n"), []byte(" "), 1), "the header is damaged"},
		{longHeader, "the header is damaged"},
		{numpy{dtype: "<U3", shape: "(1,)", data: []byte("abcdefghijkl")}.bytes(t), "got dtype <U3, want numbers"},
		{numpy{dtype: "|O", shape: "(1,)", data: []byte("x")}.bytes(t), "got dtype |O, want numbers"},
		{numpy{dtype: "<c8", shape: "(1,)", data: []complex64{1}}.bytes(t), "got dtype <c8, want numbers"},
		{numpy{dtype: "<f8", shape: "(-1,)", data: []float64{}}.bytes(t), "got shape (-1,), want a smaller one"},
		{numpy{dtype: "<f8", shape: "(4294967296, 4294967296)", data: []float64{}}.bytes(t),
			"got shape (4294967296, 4294967296), want a smaller one"},
	} {
		if a, err := readNPY(c.in); err == nil || err.Error() != c.want {
			t.Errorf("got %v, %v, want %s", a, err, c.want)
		}
	}
}

func FuzzReadNPY(f *testing.F) {
	f.Add(floats("x", 1, 2, 3).bytes(f))
	f.Add(numpy{dtype: ">i4", shape: "(2, 1)", fortran: true, data: []int32{1, 2}}.bytes(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		a, err := readNPY(content)
		if err != nil {
			return
		}
		n := 1
		for _, extent := range a.shape {
			n *= extent
		}
		if n != len(a.values) || len(a.values) > len(content) {
			t.Fatalf("shape %v, %d values from %d bytes", a.shape, len(a.values), len(content))
		}
	})
}
