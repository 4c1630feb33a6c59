package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
)

// faults pairs each error that crosses the wire with its gRPC code and its
// HTTP status.
var faults = [...]struct {
	err  error
	code codes.Code
	http int
}{
	{psg.ErrInvalid, codes.InvalidArgument, http.StatusBadRequest},
	{psg.ErrUnknown, codes.NotFound, http.StatusNotFound},
	{psg.ErrBusy, codes.ResourceExhausted, http.StatusTooManyRequests},
	{psg.ErrNotLeader, codes.FailedPrecondition, http.StatusServiceUnavailable},
	{psg.ErrUnavailable, codes.Unavailable, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, codes.DeadlineExceeded, http.StatusGatewayTimeout},
	{context.Canceled, codes.Canceled, http.StatusServiceUnavailable},
}

// toStatus is the gRPC form of a controller's error.
func toStatus(err error) error {
	for _, fault := range faults {
		if errors.Is(err, fault.err) {
			return status.Error(fault.code, err.Error())
		}
	}
	return status.Error(codes.Internal, err.Error())
}

// fromStatus is the error that toStatus was given, as far as a code tells.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	told := status.Convert(err)
	for _, fault := range faults {
		if told.Code() == fault.code {
			return fmt.Errorf("%s: %w", told.Message(), fault.err)
		}
	}
	return err
}

// toHTTP is the HTTP status of an error.
func toHTTP(err error) int {
	for _, fault := range faults {
		if errors.Is(err, fault.err) {
			return fault.http
		}
	}
	return http.StatusInternalServerError
}
