package wire

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/psgrid/psg"
)

// An image with a right sum may hold anything all the same.
func FuzzDecodeImage(f *testing.F) {
	var image psg.Image
	newFiller(f, 7).fill(reflect.ValueOf(&image).Elem())
	data, err := EncodeImage(image)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{0x22, 2, 0x1a, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := DecodeImage(data)
		if err != nil {
			if !errors.Is(err, psg.ErrInvalid) {
				t.Fatalf("not marked invalid: %v", err)
			}
			return
		}
		encoded, err := EncodeImage(first)
		if err != nil {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
		second, err := DecodeImage(encoded)
		if err != nil || !cmp.Equal(first, second) {
			t.Fatalf("changed on the way (%v):\n%s", err, cmp.Diff(first, second))
		}
	})
}

func FuzzDecodeLease(f *testing.F) {
	data, err := EncodeLease(psg.Leader{Name: "a", GRPC: "b", HTTP: "c"}, "d")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, data []byte) {
		holder, instance, err := DecodeLease(data)
		if err != nil {
			return
		}
		encoded, err := EncodeLease(holder, instance)
		if err != nil {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
		if again, same, err := DecodeLease(encoded); err != nil || again != holder || same != instance {
			t.Fatalf("changed on the way: %+v %q %v", again, same, err)
		}
	})
}
