// Package profile reads measured profiles, from which package timing interpolates.
//
// Three layouts are accepted:
//
//	NAME.npz                                        tables, used as they are:
//	                                                prefill_isl, prefill_ttft_ms, decode_active_kv_tokens,
//	                                                decode_context_length, decode_itl
//
//	DIR/selected_prefill_interpolation/raw_data.npz  samples: prefill_isl, prefill_ttft
//	DIR/selected_decode_interpolation/raw_data.npz   samples: x_kv_usage, y_context_length, z_itl, max_kv_tokens
//
//	DIR/prefill_raw_data.json, DIR/decode_raw_data.json   the same samples, as older profilers wrote them
//
// The two halves of a directory may be of different kinds; a half that exists as .npz is read from there. Arrays of
// other names are ignored.
//
// Samples are not interpolated themselves. A straight line, for decode a plane, is fitted to them, and a table of 100
// points an axis is taken from that (convert.go): a table therefore does not go through its measurements. The
// reference does the same with scikit-learn; fit.go has the part of it that is needed.
//
// A file that cannot be used is an error that says which file, which array and why. Nothing falls back to another
// model.
//
// profile.go decides what to read, npz.go reads NumPy files, samples.go collects the samples of a directory, convert.go
// makes tables of them.
package profile
