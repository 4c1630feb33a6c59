package controller

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/psgrid/psg"
)

// reservationID names a reservation of steering for an ask: PREFIX ASK / TRY, where
// TRY is new each time. A reservation that is over goes on to be answered for as it
// ended, so that the next one for the same ask must not be asked for by its ID.
// Whose room it is any leader reads from what stands before TRY.
func reservationID(prefix string, of psg.RequestID) psg.RequestID {
	return psg.RequestID(fmt.Sprint(prefix, of, "/", rand.Text()))
}

// reservedFor reports whether an ask is room that steering reserves for another.
func reservedFor(id psg.RequestID, prefix string, of psg.RequestID) bool {
	return hasPrefix(id, prefix+string(of)+"/")
}

func hasPrefix(id psg.RequestID, prefix string) bool { return strings.HasPrefix(string(id), prefix) }
