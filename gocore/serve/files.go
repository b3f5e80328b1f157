package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"dynosim/gocore/protocol/card"
)

// unreadable returns the error of an option whose file cannot be read.
func unreadable(option, path string, err error) error {
	if inner := new(fs.PathError); errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: got %q, want a file that can be read: %w", option, path, err)
}

// modelFolder finds the files of a model. also is what may be given besides, followed by a comma, for messages.
func modelFolder(path, cache, also string) (string, error) {
	want := "want " + also + "a folder with config.json and tokenizer.json, or the name of a model in the Hugging " +
		"Face cache"
	folder, err := card.FindModel(path, cache)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("model_path: got %q, %s %s: %w", path, want, cache, fs.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("model_path: %w", err)
	}
	for _, file := range []string{"config.json", "tokenizer.json"} {
		if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
			return "", fmt.Errorf("model_path: got %q, which has no %s, %s", path, file, want)
		}
	}
	return folder, nil
}
