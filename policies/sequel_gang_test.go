package policies

import "testing"

func TestSequel_ForgetsWhatAGangDoesNotTake(t *testing.T) {
	set, training, view := goldNode(t)
	training.Gang = "gang"
	sequel := set.Sequel(view)
	if reasons, err := sequel.Admit(t.Context(), training, placed("first", training, "n000")); err != nil || reasons != nil {
		t.Fatalf("first: %v, %v", reasons, err)
	}
	sequel.Free("first")
	if reasons, err := sequel.Admit(t.Context(), training, placed("other", training, "n000")); err != nil || reasons != nil {
		t.Errorf("denied because of what was given up: %v, %v", reasons, err)
	}
}
