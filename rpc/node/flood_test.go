package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// TestServe_ReadsNothingOfStrangers begins a call without the token: the answer
// comes before any of the message.
func TestServe_ReadsNothingOfStrangers(t *testing.T) {
	address, _ := serve(t, Config{Token: token})
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, psgv1.AgentService_CarryOut_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := call.RecvMsg(&psgv1.CarryOutResponse{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the head of a call is answered %v", err)
	}
}

func TestServe_HasRoomForFewConnections(t *testing.T) {
	address, _ := serve(t, Config{Token: token})
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	for range maxConnections + 5 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	last := held[len(held)-1]
	if err := last.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, last); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one too many is kept: %v", err)
	}
	for _, conn := range held {
		conn.Close()
	}
	client, err := Dial(address, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := client.CarryOut(ctx, order)
		if err == nil {
			return
		}
		if !errors.Is(err, psg.ErrUnavailable) || ctx.Err() != nil {
			t.Fatalf("room that was given back: %v", err)
		}
	}
}

func TestReadToken_ReadsRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(large, bytes.Repeat([]byte("x"), maxToken+1), 0o600), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{pipe: "no regular file", dir: "no regular file", large: "more than 4096"} {
		if _, err := ReadToken(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
