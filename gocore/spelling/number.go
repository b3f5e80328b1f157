package spelling

import (
	"bytes"
	"math"
	"strconv"
)

// AppendNumber writes x, which is finite, as Python does: the shortest digits that read back the same, with a point or
// an exponent.
func AppendNumber(dst []byte, x float64) []byte {
	if size := math.Abs(x); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.AppendFloat(dst, x, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, x, 'f', -1, 64)
	if bytes.IndexByte(dst[start:], '.') >= 0 {
		return dst
	}
	return append(dst, '.', '0')
}
