package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dynosim/gocore/spelling"
	"dynosim/gocore/timing"
)

// Open reads the profile at a path, and reports whether that is a folder. Errors name the engine argument with the
// path.
func Open(at string) (grid *timing.Grid, isFolder bool, err error) {
	info, err := os.Stat(at)
	if err != nil {
		var cause *fs.PathError // repeats the path
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, false, fmt.Errorf("planner_profile_data: %s: %w", spelling.Path(at), err)
	}
	folder, name := split(at, info)
	if grid, err = Load(os.DirFS(folder), name); err != nil {
		return nil, false, fmt.Errorf("planner_profile_data: %s: %w", spelling.Path(at), err)
	}
	return grid, info.IsDir(), nil
}

// Paths lists the files that Open reads.
func Paths(at string) ([]string, error) {
	info, err := os.Stat(at)
	if err != nil {
		return nil, err
	}
	folder, name := split(at, info)
	names, err := Files(os.DirFS(folder), name)
	for i, name := range names {
		names[i] = filepath.Join(folder, name)
	}
	return names, err
}

// split returns a path as a folder of the file system and a name in it.
func split(at string, info fs.FileInfo) (folder, name string) {
	if info.IsDir() {
		return at, "."
	}
	return filepath.Dir(at), filepath.Base(at)
}
