package bus

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// keptImages is how many images are kept: should the newest be faulty, an older
// one and a longer tail of the log do.
const keptImages = 3

// imageMagic begins each image: what it is and its format's version. The sum of
// the rest follows, then the rest.
const imageMagic = "PSGIMG1\n"

// Images keeps images of the ledger's state, so that a controller need not read
// the log from its beginning. It implements the controller's Images.
type Images struct {
	bus *Bus
}

// Images returns the kept images. CreateStreams must have been called on this
// cluster.
func (b *Bus) Images() *Images { return &Images{b} }

// Save keeps an image and forgets all but the newest few.
func (i *Images) Save(ctx context.Context, image psg.Image) error {
	payload, err := wire.EncodeImage(image)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(payload)
	data := slices.Concat([]byte(imageMagic), sum[:], payload)
	store, err := i.bus.js.ObjectStore(ctx, imageBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) { // deleted since CreateStreams
		store, err = i.bus.js.CreateObjectStore(ctx, i.bus.imageBucket())
	}
	if err != nil {
		return fmt.Errorf("open images: %w (%w)", err, psg.ErrUnavailable)
	}
	of, err := i.record(ctx, image.Sequence)
	if err != nil {
		return err
	}
	named := jetstream.ObjectMeta{Name: imageName(image.Sequence), Metadata: map[string]string{recordKey: of}}
	if _, err := store.Put(ctx, named, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("save image of record %d: %w (%w)", image.Sequence, err, psg.ErrUnavailable)
	}
	if err := i.forget(ctx, store); err != nil {
		return err
	}
	return i.sweep(ctx, store)
}

// recordKey is under what an image says of which record it is: of that name there
// is one in each log that there ever was.
const recordKey = "record-sha256"

// record is the sum of a record of the ledger, or "" if there is none.
func (i *Images) record(ctx context.Context, sequence uint64) (string, error) {
	if _, err := i.bus.end(ctx, ledgerStream); err != nil {
		return "", err
	}
	if sequence == 0 {
		return "", nil // before the first
	}
	found, err := patiently(ctx, func(ctx context.Context) (message, error) {
		found, err := i.bus.ask(ctx, ledgerStream, map[string]any{"seq": sequence})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return message{}, nil
		}
		return found, err
	})
	if err != nil {
		return "", fmt.Errorf("read record %d: %w (%w)", sequence, err, psg.ErrUnavailable)
	}
	if found.position == 0 {
		return "", nil
	}
	sum := sha256.Sum256(found.data)
	return hex.EncodeToString(sum[:]), nil
}

// errStrange means that an image is of another log than the one there is now, such
// as one that was deleted, or gone on with from a backup.
var errStrange = errors.New("the ledger has another record there, or none: it is of another ledger")

// ofLedger checks that an image is of the ledger that there is.
func (i *Images) ofLedger(ctx context.Context, image *jetstream.ObjectInfo) error {
	sequence, err := strconv.ParseUint(strings.TrimPrefix(image.Name, imagePrefix), 10, 64)
	if err != nil {
		return fmt.Errorf("its name: %w", err)
	}
	of, err := i.record(ctx, sequence)
	if err == nil && of != image.Metadata[recordKey] {
		err = errStrange
	}
	return err
}

// forget deletes all images but the newest few, and those of another ledger, which
// might seem to be newer.
func (i *Images) forget(ctx context.Context, store jetstream.ObjectStore) error {
	images, err := newest(ctx, store)
	if err != nil {
		return err
	}
	kept := 0
	for _, image := range images {
		if kept < keptImages {
			switch err := i.ofLedger(ctx, image); {
			case err == nil:
				kept++
				continue
			case !errors.Is(err, errStrange):
				return err
			}
		}
		if err := store.Delete(ctx, image.Name); err != nil {
			return fmt.Errorf("forget image %s: %w", image.Name, err)
		}
	}
	return nil
}

// chunks is what the pieces of images are stored under, each image's with an ID
// of its own.
const chunks = "$O." + imageBucket + ".C."

// sweep forgets the pieces of images that were never finished: whoever saved one
// was killed. One that another saves at this moment is spoilt, which its sum
// shows.
func (i *Images) sweep(ctx context.Context, store jetstream.ObjectStore) error {
	infos, err := store.List(ctx)
	if err != nil {
		return fmt.Errorf("list images: %w (%w)", err, psg.ErrUnavailable)
	}
	finished := map[string]bool{}
	for _, info := range infos {
		finished[chunks+info.NUID] = true
	}
	stream, err := i.bus.js.Stream(ctx, "OBJ_"+imageBucket)
	if err != nil {
		return fmt.Errorf("open images: %w (%w)", err, psg.ErrUnavailable)
	}
	held, err := stream.Info(ctx, jetstream.WithSubjectFilter(chunks+">"))
	if err != nil {
		return fmt.Errorf("list pieces of images: %w (%w)", err, psg.ErrUnavailable)
	}
	for subject := range held.State.Subjects {
		if finished[subject] {
			continue
		}
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return fmt.Errorf("forget pieces of an image: %w", err)
		}
	}
	return nil
}

// Restore calls use with the newest image that can be read and that use takes
// without an error. It returns nil, having called nothing, if there is none.
// Why an image was passed over is logged.
func (i *Images) Restore(ctx context.Context, use func(psg.Image) error) error {
	store, err := i.bus.js.ObjectStore(ctx, imageBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		i.bus.config.Log.Error("the bucket of images is gone: all of the log is read")
		return nil
	}
	if err != nil {
		return fmt.Errorf("open images: %w (%w)", err, psg.ErrUnavailable)
	}
	images, err := newest(ctx, store)
	if err != nil {
		return err
	}
	for _, info := range images {
		var image psg.Image
		if err = i.ofLedger(ctx, info); err == nil {
			image, err = load(ctx, store, info.Name)
		}
		if err == nil {
			err = use(image)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		i.bus.config.Log.Error("image passed over", "image", info.Name, "error", err)
	}
	return nil
}

func load(ctx context.Context, store jetstream.ObjectStore, name string) (psg.Image, error) {
	data, err := store.GetBytes(ctx, name)
	if err != nil {
		return psg.Image{}, fmt.Errorf("read image: %w", err)
	}
	payload, found := bytes.CutPrefix(data, []byte(imageMagic))
	if !found || len(payload) < sha256.Size {
		return psg.Image{}, errors.New("not an image of this version")
	}
	if sum := sha256.Sum256(payload[sha256.Size:]); !bytes.Equal(sum[:], payload[:sha256.Size]) {
		return psg.Image{}, errors.New("the image's sum is wrong: it is corrupted")
	}
	image, err := wire.DecodeImage(payload[sha256.Size:])
	if err == nil && imageName(image.Sequence) != name {
		err = fmt.Errorf("it is of record %d", image.Sequence)
	}
	return image, err
}

// newest lists the images, newest first.
func newest(ctx context.Context, store jetstream.ObjectStore) ([]*jetstream.ObjectInfo, error) {
	infos, err := store.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w (%w)", err, psg.ErrUnavailable)
	}
	infos = slices.DeleteFunc(infos, func(i *jetstream.ObjectInfo) bool { return !strings.HasPrefix(i.Name, imagePrefix) })
	slices.SortFunc(infos, func(a, b *jetstream.ObjectInfo) int { return cmp.Compare(b.Name, a.Name) })
	return infos, nil
}

const imagePrefix = "record-"

// imageName sorts as its sequence does.
func imageName(sequence uint64) string { return fmt.Sprintf("%s%020d", imagePrefix, sequence) }
