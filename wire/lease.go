package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// EncodeLease writes who holds the lease, and which process that is. A lease
// that nobody holds has a zero holder.
func EncodeLease(holder psg.Leader, instance string) ([]byte, error) {
	var c coder
	return marshal(&c, "lease", &psgv1.Lease{
		Holder: holder.Name, Instance: instance, Grpc: holder.GRPC, Http: holder.HTTP,
	})
}

// DecodeLease reads what EncodeLease wrote.
func DecodeLease(data []byte) (holder psg.Leader, instance string, err error) {
	var lease psgv1.Lease
	if err := unmarshal(data, "lease", &lease); err != nil {
		return psg.Leader{}, "", err
	}
	return psg.Leader{Name: lease.GetHolder(), GRPC: lease.GetGrpc(), HTTP: lease.GetHttp()}, lease.GetInstance(), nil
}
