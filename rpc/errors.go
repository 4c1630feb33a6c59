package rpc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

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

// retryAfter is when a submitter refused for lack of room may try again: in the
// next cycle there is room.
const retryAfter = 500 * time.Millisecond

// notLeading is the reason in the details of an error that says who leads.
const notLeading = "NOT_LEADING"

// toStatus is the gRPC form of a controller's error. The details say who leads,
// or when to try again.
func toStatus(err error) error {
	for _, fault := range faults {
		if errors.Is(err, fault.err) {
			return detailed(status.New(fault.code, err.Error()), err).Err()
		}
	}
	return status.Error(codes.Internal, err.Error())
}

func detailed(told *status.Status, err error) *status.Status {
	var detail protoadapt.MessageV1
	var elsewhere *psg.NotLeaderError
	switch {
	case errors.As(err, &elsewhere):
		detail = &errdetails.ErrorInfo{Reason: notLeading, Domain: "psg.v1", Metadata: map[string]string{
			"controller": elsewhere.Controller,
			"leader":     elsewhere.Leader.Name, "grpc": elsewhere.Leader.GRPC, "http": elsewhere.Leader.HTTP,
		}}
	case errors.Is(err, psg.ErrBusy):
		detail = &errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}
	default:
		return told
	}
	with, err := told.WithDetails(detail)
	if err != nil {
		return told
	}
	return with
}

// fromStatus is the error that toStatus was given, as far as a code and its
// details tell.
func fromStatus(err error) error {
	if err == nil {
		return nil
	}
	told := status.Convert(err)
	for _, detail := range told.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == notLeading {
			names := info.GetMetadata()
			return &psg.NotLeaderError{Controller: names["controller"], Leader: psg.Leader{
				Name: names["leader"], GRPC: names["grpc"], HTTP: names["http"],
			}}
		}
	}
	for _, fault := range faults {
		if told.Code() == fault.code {
			if fault.code == codes.ResourceExhausted && len(told.Details()) == 0 {
				return fmt.Errorf("%s: %w", told.Message(), psg.ErrInvalid) // gRPC's own: it is too large, and stays so
			}
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
