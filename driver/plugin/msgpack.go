package plugin

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// msgpackHandle is how Nomad encodes configs: raw bytes are strings and maps
// have string keys.
func msgpackHandle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{}
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	return h
}

// decodeConfig reads a config; no bytes are an empty one.
func decodeConfig(data []byte) (config map[string]any, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	// The codec reports damage by panicking inside; it must not reach us.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decode config: %v", r)
		}
	}()
	if err := codec.NewDecoderBytes(data, msgpackHandle()).Decode(&config); err != nil {
		return nil, fmt.Errorf("decode config: %w", err)
	}
	return config, nil
}
