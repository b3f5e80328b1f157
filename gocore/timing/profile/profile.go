package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"dynosim/gocore/timing"
)

// Load reads the profile at name, a file or a folder of fsys.
func Load(fsys fs.FS, name string) (*timing.Grid, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return loadFolder(fsys, name)
	}
	if path.Ext(name) != ".npz" {
		return nil, fmt.Errorf("%s is not a profile: %s", name, layouts)
	}
	return loadTables(fsys, name)
}

// Files lists the files that Load reads.
func Files(fsys fs.FS, name string) ([]string, error) {
	if info, err := fs.Stat(fsys, name); err != nil || !info.IsDir() {
		return []string{name}, err
	}
	prefill, err := firstOf(fsys, name, prefillFiles...)
	if err != nil {
		return nil, err
	}
	decode, err := firstOf(fsys, name, decodeFiles...)
	return []string{prefill, decode}, err
}

// A folder holds one file of each list; the first that is there counts.
var (
	prefillFiles = []string{"selected_prefill_interpolation/raw_data.npz", "prefill_raw_data.json"}
	decodeFiles  = []string{"selected_decode_interpolation/raw_data.npz", "decode_raw_data.json"}
)

// layouts explains what a profile can be, in the error for anything else.
const layouts = "want a .npz file with " +
	"prefill_isl, prefill_ttft_ms, decode_active_kv_tokens, decode_context_length and decode_itl; " +
	"or a folder with selected_prefill_interpolation/raw_data.npz or prefill_raw_data.json, " +
	"and selected_decode_interpolation/raw_data.npz or decode_raw_data.json"

// loadTables reads a file in the layout of the tables themselves.
func loadTables(fsys fs.FS, name string) (*timing.Grid, error) {
	file, err := openNPZ(fsys, name)
	if err != nil {
		return nil, err
	}
	var t timing.Tables
	for _, a := range []struct {
		name       string
		dimensions int
		to         *[]float64
	}{
		{"prefill_isl", 1, &t.PrefillISL},
		{"prefill_ttft_ms", 1, &t.PrefillTTFTMs},
		{"decode_active_kv_tokens", 1, &t.DecodeActiveKVTokens},
		{"decode_context_length", 1, &t.DecodeContextLength},
		{"decode_itl", 2, &t.DecodeITLMs},
	} {
		array, err := file.array(a.name)
		if err == nil {
			err = array.wantFloat64()
		}
		if err == nil {
			err = array.wantDimensions(a.dimensions)
		}
		if want := []int{len(t.DecodeActiveKVTokens), len(t.DecodeContextLength)}; err == nil && a.dimensions == 2 &&
			!slices.Equal(array.shape, want) {
			err = &timing.TableError{
				Array: a.name,
				Got:   "shape " + shapeText(array.shape),
				Want:  shapeText(want) + ", decode_active_kv_tokens by decode_context_length",
			}
		}
		if err != nil {
			return nil, in(name, err)
		}
		*a.to = array.values
	}
	grid, err := timing.NewGrid(t)
	if err != nil {
		return nil, in(name, err)
	}
	return grid, nil
}

// loadFolder reads the samples of a folder and makes tables of them.
func loadFolder(fsys fs.FS, name string) (*timing.Grid, error) {
	prefill, err := readPrefill(fsys, name)
	if err != nil {
		return nil, err
	}
	decode, err := readDecode(fsys, name)
	if err != nil {
		return nil, err
	}
	var t timing.Tables
	if err := prefill.fill(&t); err != nil {
		return nil, in(prefill.file, err)
	}
	if err := decode.fill(&t); err != nil {
		return nil, in(decode.file, err)
	}
	grid, err := timing.NewGrid(t)
	if err != nil {
		return nil, in(name, err)
	}
	return grid, nil
}

// in says in which file something is wrong.
func in(file string, err error) error { return fmt.Errorf("%s: %w", file, err) }

// sizeLimit keeps a wrong path from filling the memory: profiles have kilobytes.
const sizeLimit = 64 << 20

func readFile(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > sizeLimit {
		return nil, in(name, fmt.Errorf("got %d bytes, want at most %d", info.Size(), sizeLimit))
	}
	return fs.ReadFile(fsys, name)
}

// firstOf returns the first of the files that exists in folder.
func firstOf(fsys fs.FS, folder string, names ...string) (string, error) {
	for _, name := range names {
		name = path.Join(folder, name)
		if _, err := fs.Stat(fsys, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return name, err
		}
	}
	return "", fmt.Errorf("neither %s nor %s is there: %s", names[0], names[1], layouts)
}
