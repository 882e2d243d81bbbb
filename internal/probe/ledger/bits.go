package ledger

// bits is a growing set of small integers: two of them keep the whole life of
// a client, at two bits a record.
type bits struct {
	words []uint64
	count uint64
}

// add puts n into the set and says whether it was new.
func (b *bits) add(n uint64) bool {
	word, mask := n/64, uint64(1)<<(n%64)
	for uint64(len(b.words)) <= word {
		b.words = append(b.words, 0)
	}
	if b.words[word]&mask != 0 {
		return false
	}
	b.words[word] |= mask
	b.count++
	return true
}

// without lists the first limit members of b that other lacks, and counts all.
func (b *bits) without(other *bits, limit int) (missing []uint64, count uint64) {
	b.visitWithout(other, func(n uint64) {
		count++
		if len(missing) < limit {
			missing = append(missing, n)
		}
	})
	return missing, count
}

// visitWithout visits the members of b that other lacks, in order.
func (b *bits) visitWithout(other *bits, visit func(n uint64)) {
	for i, word := range b.words {
		if i < len(other.words) {
			word &^= other.words[i]
		}
		for bit := uint64(0); word != 0; bit, word = bit+1, word>>1 {
			if word&1 == 1 {
				visit(uint64(i)*64 + bit)
			}
		}
	}
}
