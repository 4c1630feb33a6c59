package controller

import (
	"context"
	"fmt"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
)

// Images keeps images of the ledger's state. Restore calls use with the newest
// that use takes without an error, and with none if there is none.
type Images interface {
	Save(ctx context.Context, image psg.Image) error
	Restore(ctx context.Context, use func(psg.Image) error) error
}

// noImages keeps none: the whole log is read.
type noImages struct{}

func (noImages) Save(context.Context, psg.Image) error                { return nil }
func (noImages) Restore(context.Context, func(psg.Image) error) error { return nil }

// restore makes the state what the log says, all of it. A state that holds
// committed records alone is kept, and only what followed is read; else it
// begins with an image, and where none leads to the log's end, with nothing.
func (c *Controller) restore(ctx context.Context) error {
	state := c.state
	if !c.restored {
		state = ledger.New()
		err := c.config.Images.Restore(ctx, func(image psg.Image) error {
			of, err := ledger.FromImage(image)
			if err == nil {
				state = of
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("restore image: %w", err)
		}
	}
	began := state.Sequence()
	err := c.replay(ctx, state)
	if err != nil && began > 0 && !passing(err) && ctx.Err() == nil {
		c.config.Log.Error("the log does not follow from its image: all of it is read", "image", began, "error", err)
		state = ledger.New()
		err = c.replay(ctx, state)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// What a failing log gave so far are whole records: a state that they were
	// folded into may go on from there.
	if c.restored = err == nil || c.restored && passing(err); err != nil {
		return fmt.Errorf("replay ledger: %w", err)
	}
	c.state = state
	return nil
}

// replay folds what follows in the log.
func (c *Controller) replay(ctx context.Context, state *ledger.State) error {
	return c.log.Replay(ctx, state.Sequence(), func(r psg.Record) error {
		c.mu.Lock() // readers may hold the same state
		defer c.mu.Unlock()
		c.unsaved += len(r.Deltas)
		return state.Apply(r)
	})
}

// offerImage hands an image to be saved once enough has been committed since
// the last, unless one is being saved.
func (c *Controller) offerImage() {
	if c.unsaved < c.config.ImageEvery {
		return
	}
	select {
	case c.saver <- struct{}{}:
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images <- c.state.Image()
	c.unsaved = 0
}

// saveImages saves what is offered, one at a time, until ctx ends. A failure
// costs the next controller time, nothing else.
func (c *Controller) saveImages(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case image := <-c.images:
			if err := c.config.Images.Save(ctx, image); err != nil && ctx.Err() == nil {
				c.config.Log.Error("image not saved", "record", image.Sequence, "error", err)
			}
			<-c.saver
		}
	}
}
