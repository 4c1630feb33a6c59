package node

import (
	"net"
	"sync"
)

// bounded is a listener with room for a few connections. It closes at once what
// comes while there is none.
type bounded struct {
	net.Listener
	room chan struct{}
}

func newBounded(l net.Listener, most int) bounded { return bounded{l, make(chan struct{}, most)} }

// Accept waits for a connection for which there is room.
func (b bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.room <- struct{}{}:
			return &accepted{Conn: conn, leave: sync.OnceFunc(func() { <-b.room })}, nil
		default:
			_ = conn.Close() // nobody was promised anything
		}
	}
}

// accepted gives its room back when it is closed.
type accepted struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (a *accepted) Close() error {
	defer a.leave()
	return a.Conn.Close()
}
