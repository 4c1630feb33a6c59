package policies
import ("testing";"os";"strconv")
func TestZZ(t *testing.T){ n,_ := strconv.Atoi(os.Getenv("SEEDS")); for i := range n { differential(t, uint64(1000+i), 60_000) } }
