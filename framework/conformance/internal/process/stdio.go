package process

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// readStdio reads the output that the process sends by go-plugin's stdio service, if it serves that. A process whose
// output is not read blocks.
func (p *Process) readStdio(ctx context.Context, log *Output) {
	stream, err := p.Conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	for {
		var message emptypb.Empty // its fields stay unknown
		if stream.RecvMsg(&message) != nil {
			return
		}
		channel, data := stdioData(message.ProtoReflect().GetUnknown())
		for line := range strings.SplitSeq(strings.TrimRight(string(data), "\n"), "\n") {
			if channel == 1 {
				log.printed(line)
			} else {
				p.wrote(line, false, log)
			}
		}
	}
}

// stdioData decodes go-plugin's message StdioData.
func stdioData(raw []byte) (channel uint64, data []byte) {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return channel, data
		}
		raw = raw[n:]
		switch {
		case number == 1 && kind == protowire.VarintType:
			channel, n = protowire.ConsumeVarint(raw)
		case number == 2 && kind == protowire.BytesType:
			data, n = protowire.ConsumeBytes(raw)
		default:
			n = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if n < 0 {
			return channel, data
		}
		raw = raw[n:]
	}
	return channel, data
}
