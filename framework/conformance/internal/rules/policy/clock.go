package policy

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/framework/conformance/internal/queue"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// calendar is the period of the calendar between 1901 and 2099, after which weekdays fall on the same dates. A snapshot
// that is moved by it has the same ages, times of day, weekdays and dates, and so the same decision unless a config
// names years. A policy that reads the clock of its machine sees other ages.
const calendar = (28*365 + 7) * 24 * time.Hour

// farZones returns time zones that are far away from each other.
func farZones() []string { return []string{"Etc/GMT+12", "Etc/GMT-14"} }

// checkClock checks that a policy knows the time from its request alone.
func checkClock(ctx context.Context, s *policy) error {
	all, err := s.rightDecisions(ctx)
	if err != nil {
		return err
	}
	all = some(all)
	for _, d := range []time.Duration{0, time.Until(queue.Moment(0).AsTime()).Abs().Truncate(time.Second)} {
		if err := s.decidesLater(ctx, all, d); err != nil {
			return err
		}
	}
	for began := time.Now(); time.Since(began) < 1100*time.Millisecond; { // across the start of a second
		if err := suite.Sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
		if err := s.sameAgain(ctx, all[:1], "a moment later"); err != nil {
			return err
		}
	}
	if s.Host.Process() == nil {
		return nil // the plugin has the time zone of this process
	}
	for _, zone := range farZones() {
		if err := s.decidesIn(ctx, all, zone); err != nil {
			return err
		}
	}
	return nil
}

// some returns the first three decisions and every third of the others, to limit the time for a slow policy.
func some(all []decision) []decision {
	var chosen []decision
	for i, one := range all {
		if i < 3 || i%3 == 0 {
			chosen = append(chosen, one)
		}
	}
	return chosen
}

// decidesLater compares decisions on requests that are moved in time by d with those on requests of the next calendar.
func (s *policy) decidesLater(ctx context.Context, all []decision, d time.Duration) error {
	return s.Each(ctx, len(all), func(ctx context.Context, i int) error {
		one := all[i]
		now, err := s.calls().decide(ctx, s, s.calls().moved(one.request, d))
		if err != nil {
			return err
		}
		then, err := s.calls().decide(ctx, s, s.calls().moved(one.request, d+calendar))
		if err != nil {
			return fmt.Errorf("28 years later: %w", err)
		}
		if !proto.Equal(now, then) {
			return fmt.Errorf("all ages, times of day, weekdays and dates being the same, it decides %v in the year %d, and "+
				"%v in %d",
				suite.Clip(fmt.Sprint(now)), queue.Moment(-d).AsTime().Year(), suite.Clip(fmt.Sprint(then)),
				queue.Moment(-d-calendar).AsTime().Year())
		}
		return nil
	})
}

// decidesIn compares decisions with those of a process in another time zone.
func (s *policy) decidesIn(ctx context.Context, all []decision, zone string) error {
	s.Host.Stop()
	s.Host.Environment = []string{"TZ=" + zone}
	defer func() {
		s.Host.Stop()
		s.Host.Environment = nil
	}()
	return s.sameAgain(ctx, all, "when the time zone of the process is "+zone)
}
