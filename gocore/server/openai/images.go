package openai

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"image"
	_ "image/gif"  // formats whose sizes are known
	_ "image/jpeg" // the same
	_ "image/png"  // the same
	"strings"

	"github.com/zeebo/xxh3"

	"dynosim/gocore/server/tokens"
)

// Images says how many tokens an image is for a model.
type Images struct {
	Tokens int // of a tile, 0 for a model that takes no images
	Tile   int // pixels of its sides
}

// Images stand in contents of messages as marks, which end up where the chat template writes the content. A mark has a
// secret of this process, so that no text of a client is one.
var imageSecret = newSecret()

func newSecret() string {
	secret := make([]byte, 8)
	_, _ = rand.Read(secret) // it never fails
	return hex.EncodeToString(secret)
}

const imageMark = "\uE000image "

// markImage returns the mark of an image. Only the size of data URLs is known; others are one tile, as with detail
// "low".
func markImage(param, url, detail string) (string, error) {
	if url == "" {
		return "", badRequest(param, "got an image without a URL (image_url)")
	}
	width, height := 1, 1
	if data, inline := strings.CutPrefix(url, "data:"); inline && detail != "low" {
		_, encoded, found := strings.Cut(data, ";base64,")
		if !found {
			return "", badRequest(param, "got an image whose data URL is not in base64, want data:image/png;base64,...")
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return "", badRequest(param, "got an image whose data URL is no base64: %v", err)
		}
		size, _, err := image.DecodeConfig(bytes.NewReader(raw))
		if err != nil {
			return "", badRequest(param, "got an image that cannot be read (%v), want PNG, JPEG or GIF", err)
		}
		width, height = size.Width, size.Height
	}
	seed := binary.BigEndian.AppendUint64(nil, xxh3.HashString(url))
	return fmt.Sprintf("%s%s %d %d %x\uE001", imageMark, imageSecret, width, height, seed), nil
}

// tokens returns how many tokens an image has.
func (i Images) tokens(width, height int) int {
	side := func(pixels int) int { return max(1, (pixels+i.Tile-1)/i.Tile) }
	return i.Tokens * side(width) * side(height)
}

// withoutImages returns a content without the marks of its images.
func withoutImages(content string) string {
	for {
		mark, found := nextImage(content)
		if !found {
			return content
		}
		content = strings.Replace(content, mark, "", 1)
	}
}

// nextImage finds the first mark of a content.
func nextImage(content string) (mark string, found bool) {
	begin := imageMark + imageSecret
	at := strings.Index(content, begin)
	if at < 0 {
		return "", false
	}
	end := strings.Index(content[at:], "\uE001")
	return content[at : at+end+len("\uE001")], true
}

// chatTokens returns the tokens of a conversation.
func (m *Model) chatTokens(ctx context.Context, c tokens.Chat) ([]uint32, error) {
	all := 0
	for i := range c.Messages {
		for rest := c.Messages[i].Content; ; {
			mark, found := nextImage(rest)
			if !found {
				break
			}
			if m.Images.Tokens == 0 {
				return nil, badRequest(fmt.Sprintf("messages.%d.content", i),
					"got an image (image_url), want text: %s takes no images (--image-tokens says how many tokens one is)", m.Name)
			}
			img := tokens.Image{Mark: mark}
			var width, height int
			if _, err := fmt.Sscanf(mark[len(imageMark)+len(imageSecret):], " %d %d %x", &width, &height,
				&img.Seed); err != nil {
				return nil, err
			}
			if img.Tokens = m.Images.tokens(width, height); img.Tokens > maxTokens/4 || all > maxTokens/4 {
				return nil, badRequest("messages", "got images of more than %d tokens", maxTokens/4)
			}
			all += img.Tokens
			c.Images = append(c.Images, img)
			_, rest, _ = strings.Cut(rest, mark)
		}
	}
	return m.Tokenizer.Chat(ctx, c)
}
