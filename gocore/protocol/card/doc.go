// Package card makes the model card: what a worker publishes about the model it serves, and what a frontend needs to
// serve it over HTTP. A frontend reads the files that the card names, checks their checksums, and tokenizes with them;
// the worker itself needs none of them.
//
//	FindModel    folder, or name of a model in the Hugging Face cache -> folder
//	New          folder and engine arguments -> Card
//	Card.Checksum  all workers of one model must agree in it
//
// KVBytesPerToken reads the shape of the model from its config.json.
package card
