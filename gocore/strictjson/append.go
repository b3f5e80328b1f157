package strictjson

import "strconv"

// AppendInts appends a list of integers as JSON.
func AppendInts[N int | int32 | int64 | uint32](dst []byte, values []N) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(v), 10)
	}
	return append(dst, ']')
}
