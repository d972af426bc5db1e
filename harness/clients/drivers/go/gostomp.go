// The driver of go-stomp: see docs/reference/client-drivers.md.
package main

import (
	"fmt"
	"time"

	"github.com/go-stomp/stomp/v3"
	"github.com/go-stomp/stomp/v3/frame"
)

var (
	connection    *stomp.Conn
	subscriptions = map[string]*stomp.Subscription{}
	transactions  = map[string]*stomp.Transaction{}
	received      []*stomp.Message
)

func mapping(header *frame.Header) map[string]string {
	values := map[string]string{}
	for i := header.Len() - 1; i >= 0; i-- { // the first of repeated headers counts
		name, value := header.GetAt(i)
		values[name] = value
	}
	return values
}

func listen(subscription *stomp.Subscription) {
	for message := range subscription.C {
		if message.Err != nil {
			reportError(message.Err)
			report("disconnected", nil)
			continue
		}
		reportMessage(mapping(message.Header), message.Body, func() {
			received = append(received, message)
		})
	}
}

func connect(asked command) error {
	beat := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	options := []func(*stomp.Conn) error{
		stomp.ConnOpt.Login(asked.Login, asked.Passcode),
		stomp.ConnOpt.AcceptVersion(stomp.Version(asked.Version)),
		stomp.ConnOpt.HeartBeat(beat(asked.HeartBeat[0]), beat(asked.HeartBeat[1])),
	}
	if asked.Version != "1.0" {
		options = append(options, stomp.ConnOpt.Host(asked.Vhost))
	}
	made, err := stomp.Dial("tcp", fmt.Sprintf("%s:%d", asked.Host, asked.Port), options...)
	if err != nil {
		reportError(err)
		return err
	}
	connection = made
	report("connected", map[string]any{"headers": map[string]string{}})
	return nil
}

func send(asked command) error {
	body := asked.content()
	options := []func(*frame.Frame) error{}
	for name, value := range asked.Headers {
		options = append(options, stomp.SendOpt.Header(name, value))
	}
	if asked.Transaction != "" {
		return transactions[asked.Transaction].Send(asked.Destination, asked.ContentType, body, options...)
	}
	return connection.Send(asked.Destination, asked.ContentType, body, options...)
}

func settle(asked command) error {
	state.Lock()
	message := received[asked.Message-1]
	state.Unlock()
	transaction := transactions[asked.Transaction]
	switch {
	case asked.Do == "ack" && transaction != nil:
		return transaction.Ack(message)
	case asked.Do == "ack":
		return connection.Ack(message)
	case transaction != nil:
		return transaction.Nack(message)
	default:
		return connection.Nack(message)
	}
}

func obey(asked command) error {
	switch asked.Do {
	case "connect":
		return connect(asked)
	case "subscribe":
		modes := map[string]stomp.AckMode{"auto": stomp.AckAuto, "client": stomp.AckClient, "client-individual": stomp.AckClientIndividual}
		made, err := connection.Subscribe(asked.Destination, modes[asked.Ack], stomp.SubscribeOpt.Id(asked.ID))
		if err == nil {
			subscriptions[asked.ID] = made
			go listen(made)
		}
		return err
	case "unsubscribe":
		go subscriptions[asked.ID].Unsubscribe()
		return nil
	case "send":
		return send(asked)
	case "ack", "nack":
		return settle(asked)
	case "begin":
		made, err := connection.BeginWithError()
		transactions[asked.Transaction] = made
		return err
	case "commit":
		return transactions[asked.Transaction].Commit()
	case "abort":
		return transactions[asked.Transaction].Abort()
	case "disconnect":
		go func() {
			if connection.Disconnect() == nil {
				report("disconnected", nil)
			}
		}()
		return nil
	}
	return fmt.Errorf("there is no command %q", asked.Do)
}

func main() {
	serve("go-stomp", "github.com/go-stomp/stomp/v3", obey, "connect")
}
