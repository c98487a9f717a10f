package drawing

import (
	"cmp"
	"slices"
)

// order puts the vertices of each column into an order in which few lines cross each other: the best of some sweeps.
func (a *arranger) order() {
	a.gather()
	best, fewest := copied(a.columns), a.crossings()
	for i := range sweeps {
		a.sort(i%2 == 0)
		a.swap()
		if crossings := a.crossings(); crossings < fewest {
			best, fewest = copied(a.columns), crossings
		}
	}
	a.columns = best
}

// gather puts the vertices of each column into the order in which a walk along the edges comes by them, so that those
// which belong together are near each other.
func (a *arranger) gather() {
	seen := make([]bool, len(a.vertices))
	columns := make([][]int, len(a.columns))
	for _, column := range a.columns {
		for _, first := range column {
			for open := []int{first}; len(open) > 0; {
				v := open[len(open)-1]
				if open = open[:len(open)-1]; seen[v] {
					continue
				}
				seen[v] = true
				columns[a.vertices[v].column] = append(columns[a.vertices[v].column], v)
				for _, next := range slices.Backward(slices.Concat(a.vertices[v].right, a.vertices[v].left)) {
					if !seen[next] {
						open = append(open, next)
					}
				}
			}
		}
	}
	a.columns = columns
}

// sort sorts the vertices of each column by the mean position of their neighbours. Those without any stay where they
// are.
func (a *arranger) sort(fromLeft bool) {
	position := make([]int, len(a.vertices))
	keys := make([]int, len(a.vertices))
	for _, column := range a.columns {
		for i, v := range column {
			position[v] = i
		}
	}
	a.neighbours(fromLeft, func(column []int, before func(int) []int) {
		var connected []int
		for _, v := range column {
			if around := before(v); len(around) > 0 {
				sum := 0
				for _, n := range around {
					sum += position[n]
				}
				keys[v] = 1000 * sum / len(around)
				connected = append(connected, v)
			}
		}
		slices.SortStableFunc(connected, func(x, y int) int { return cmp.Compare(keys[x], keys[y]) })
		for i, v := range column {
			if len(before(v)) > 0 {
				column[i], connected = connected[0], connected[1:]
			}
		}
		for i, v := range column {
			position[v] = i
		}
	})
}

// swap exchanges vertices that are next to each other while that makes fewer lines cross.
func (a *arranger) swap() {
	position := a.positions()
	sorted := func(vertices []int) []int {
		positions := make([]int, len(vertices))
		for i, v := range vertices {
			positions[i] = position[v]
		}
		slices.Sort(positions)
		return positions
	}
	for _, column := range a.columns {
		left, right := make([][]int, len(column)), make([][]int, len(column))
		for i, v := range column {
			left[i], right[i] = sorted(a.vertices[v].left), sorted(a.vertices[v].right)
		}
		for range sweeps {
			swapped := false
			for i := 1; i < len(column); i++ {
				above, below := inversions(left[i-1], left[i])+inversions(right[i-1], right[i]),
					inversions(left[i], left[i-1])+inversions(right[i], right[i-1])
				if below < above {
					column[i-1], column[i] = column[i], column[i-1]
					left[i-1], left[i] = left[i], left[i-1]
					right[i-1], right[i] = right[i], right[i-1]
					swapped = true
				}
			}
			if !swapped {
				break
			}
		}
		for i, v := range column {
			position[v] = i
		}
	}
}

// inversions returns how many elements of b are less than those of a, for each of a. Both are sorted.
func inversions(a, b []int) (count int) {
	less := 0
	for _, x := range a {
		for less < len(b) && b[less] < x {
			less++
		}
		count += less
	}
	return count
}

// crossings returns how many lines between neighbouring columns cross each other.
func (a *arranger) crossings() (count int) {
	position := a.positions()
	for i := 0; i+1 < len(a.columns); i++ {
		passed := make([]int, len(a.columns[i+1])+1) // a Fenwick tree of the ends of the lines before
		lines := 0
		for _, v := range a.columns[i] {
			for _, end := range a.vertices[v].right {
				count += lines
				for k := position[end] + 1; k > 0; k &= k - 1 { // those that end there or above do not cross
					count -= passed[k]
				}
			}
			for _, end := range a.vertices[v].right {
				lines++
				for k := position[end] + 1; k < len(passed); k += k & -k {
					passed[k]++
				}
			}
		}
	}
	return count
}

// positions returns the position of each vertex in its column.
func (a *arranger) positions() []int {
	positions := make([]int, len(a.vertices))
	for _, column := range a.columns {
		for i, v := range column {
			positions[v] = i
		}
	}
	return positions
}

func copied(columns [][]int) [][]int {
	all := make([][]int, len(columns))
	for i, column := range columns {
		all[i] = slices.Clone(column)
	}
	return all
}
