package profile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sbinet/npyio/npy"

	"dynosim/gocore/timing"
)

// archive is a NumPy archive: a zip file with one NAME.npy for each array.
type archive struct {
	members []*zip.File
}

// array is one array of numbers, its values in C order.
type array struct {
	name   string
	dtype  string // as NumPy writes it, such as <f8
	shape  []int
	values []float64
}

func openNPZ(fsys fs.FS, name string) (archive, error) {
	content, err := readFile(fsys, name)
	if err != nil {
		return archive{}, err
	}
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return archive{}, in(name, fmt.Errorf("not a NumPy archive: %w", err))
	}
	return archive{z.File}, nil
}

// array reads one array. It complains if there is none of that name.
func (a archive) array(name string) (array, error) {
	i := slices.IndexFunc(a.members, func(f *zip.File) bool { return f.Name == name+".npy" })
	if i < 0 {
		return array{}, &timing.TableError{Array: name, Got: "no such array", Want: "it beside " + a.names()}
	}
	content, err := readMember(a.members[i])
	if err != nil {
		return array{}, in(name, err)
	}
	result, err := readNPY(content)
	if err != nil {
		return array{}, in(name, err)
	}
	result.name = name
	return result, nil
}

// names lists the arrays that are there.
func (a archive) names() string {
	var names []string
	for _, f := range a.members {
		names = append(names, strings.TrimSuffix(f.Name, ".npy"))
	}
	if names == nil {
		return "others"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func readMember(f *zip.File) ([]byte, error) {
	if f.UncompressedSize64 > sizeLimit {
		return nil, fmt.Errorf("got %d bytes, want at most %d", f.UncompressedSize64, sizeLimit)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r) // the reader fails when there is more than the zip directory says
}

// readNPY decodes one array. The library does not check the bounds of headers, takes missing values for zeros and
// returns Fortran order as it is stored; this function handles all three.
func readNPY(content []byte) (a array, err error) {
	defer func() {
		if recover() != nil {
			err = errDamaged
		}
	}()
	if !headerFits(content) {
		return array{}, errDamaged
	}
	body := bytes.NewReader(content)
	r, err := npy.NewReader(body)
	if err != nil {
		return array{}, err
	}
	header := r.Header.Descr
	element := npy.TypeFrom(header.Type)
	read, known := readers[kindOf(element)]
	if !known {
		return array{}, fmt.Errorf("got dtype %s, want numbers", header.Type)
	}
	size := int(element.Size())
	for _, n := range header.Shape {
		if n < 0 || n > 0 && size > sizeLimit/n {
			return array{}, fmt.Errorf("got shape %s, want a smaller one", shapeText(header.Shape))
		}
		size *= n
	}
	if body.Len() != size {
		return array{}, fmt.Errorf("got %d bytes of values, want %d for dtype %s and shape %s", body.Len(), size,
			header.Type, shapeText(header.Shape))
	}
	a = array{dtype: header.Type, shape: header.Shape, values: []float64{}}
	if size == 0 {
		return a, nil
	}
	a.values, err = read(r)
	if err == nil && header.Fortran && len(a.shape) == 2 {
		a.values = transposed(a.values, a.shape[0], a.shape[1])
	}
	return a, err
}

// headerFits reports whether an array's header is no longer than its file. The library would make room for 4 GB.
func headerFits(content []byte) bool {
	const longHeaders = 2 // the major version from which the length has four bytes
	return len(content) < 12 || !bytes.HasPrefix(content, npy.Magic[:]) || content[6] < longHeaders ||
		int64(binary.LittleEndian.Uint32(content[8:])) <= int64(len(content))
}

var errDamaged = errors.New("the header is damaged")

func kindOf(t reflect.Type) reflect.Kind {
	if t == nil {
		return reflect.Invalid
	}
	return t.Kind()
}

// readers has the types of elements that count as numbers.
var readers = map[reflect.Kind]func(*npy.Reader) ([]float64, error){
	reflect.Int8:    readAs[int8],
	reflect.Int16:   readAs[int16],
	reflect.Int32:   readAs[int32],
	reflect.Int64:   readAs[int64],
	reflect.Uint8:   readAs[uint8],
	reflect.Uint16:  readAs[uint16],
	reflect.Uint32:  readAs[uint32],
	reflect.Uint64:  readAs[uint64],
	reflect.Float32: readAs[float32],
	reflect.Float64: readAs[float64],
}

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func readAs[T number](r *npy.Reader) ([]float64, error) {
	var stored []T
	if err := r.Read(&stored); err != nil {
		return nil, err
	}
	values := make([]float64, len(stored))
	for i, x := range stored {
		values[i] = float64(x)
	}
	return values, nil
}

// transposed turns column after column into row after row.
func transposed(values []float64, rows, columns int) []float64 {
	result := make([]float64, 0, len(values))
	for i := range rows {
		for j := range columns {
			result = append(result, values[j*rows+i])
		}
	}
	return result
}

// wantFloat64 complains unless the elements are float64, in any byte order.
func (a array) wantFloat64() error {
	if strings.TrimLeft(a.dtype, "<>=|") != "f8" {
		return &timing.TableError{Array: a.name, Got: "dtype " + a.dtype, Want: "float64"}
	}
	return nil
}

// wantDimensions complains unless the array has n dimensions.
func (a array) wantDimensions(n int) error {
	if len(a.shape) != n {
		return &timing.TableError{Array: a.name, Got: "shape " + shapeText(a.shape),
			Want: fmt.Sprintf("%d dimension(s)", n)}
	}
	return nil
}

// shapeText writes a shape as Python does.
func shapeText(shape []int) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
