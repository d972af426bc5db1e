// The driver of go-amqp: see docs/reference/client-drivers.md.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/go-amqp"
)

type delivered struct {
	receiver *amqp.Receiver
	message  *amqp.Message
}

var (
	background = context.Background()
	connection *amqp.Conn
	session    *amqp.Session
	queues     = map[string]chan []byte{}
	closers    = map[string]func(context.Context) error{}
	received   []delivered
	posted     int
)

func connect(asked command) error {
	options := &amqp.ConnOptions{
		SASLType:     amqp.SASLTypePlain(asked.Login, asked.Passcode),
		IdleTimeout:  -1,
		MaxFrameSize: uint32(asked.MaxFrame),
	}
	if asked.IdleMs > 0 {
		options.IdleTimeout = time.Duration(asked.IdleMs) * time.Millisecond
	}
	made, err := amqp.Dial(background, fmt.Sprintf("amqp://%s:%d", asked.Host, asked.Port), options)
	if err == nil {
		connection = made
		session, err = made.NewSession(background, nil)
	}
	if err != nil {
		reportError(err)
		report("disconnected", nil)
		return err
	}
	go func() {
		<-made.Done()
		if problem := made.Err(); problem != nil {
			reportError(problem)
		}
		report("disconnected", nil)
	}()
	report("connected", nil)
	return nil
}

func attachSender(asked command, queue chan []byte) {
	mode := amqp.SenderSettleModeUnsettled
	if asked.Mode == "settled" {
		mode = amqp.SenderSettleModeSettled
	}
	sender, err := session.NewSender(background, asked.Address, &amqp.SenderOptions{Name: asked.Link, SettlementMode: mode.Ptr()})
	if err != nil {
		reportError(err)
		return
	}
	opened(asked.Link, sender.Close)
	for body := range queue {
		posted++
		send(sender, mode, posted, body)
	}
}

// Send in order; the outcome is awaited beside.
func send(sender *amqp.Sender, mode amqp.SenderSettleMode, number int, body []byte) {
	message := amqp.NewMessage(body)
	if mode == amqp.SenderSettleModeSettled {
		if err := sender.Send(background, message, nil); err != nil {
			reportError(err)
		}
		return
	}
	receipt, err := sender.SendWithReceipt(background, message, nil)
	if err != nil {
		reportError(err)
		return
	}
	go func() {
		state, err := receipt.Wait(background)
		if err != nil {
			reportError(err)
			return
		}
		outcome := "none"
		switch state.(type) {
		case *amqp.StateAccepted:
			outcome = "accepted"
		case *amqp.StateRejected:
			outcome = "rejected"
		case *amqp.StateReleased:
			outcome = "released"
		case *amqp.StateModified:
			outcome = "modified"
		}
		report("settled", map[string]any{"number": number, "outcome": outcome})
	}()
}

func attachReceiver(asked command) {
	receiver, err := session.NewReceiver(background, asked.Address, &amqp.ReceiverOptions{Name: asked.Link, Credit: int32(asked.Credit)})
	if err != nil {
		reportError(err)
		return
	}
	opened(asked.Link, receiver.Close)
	for {
		message, err := receiver.Receive(background, nil)
		if err != nil {
			reportError(err)
			report("link-closed", map[string]any{"link": asked.Link})
			return
		}
		reportMessage(map[string]string{"link": asked.Link}, message.GetData(), func() {
			received = append(received, delivered{receiver, message})
		})
	}
}

func opened(link string, close func(context.Context) error) {
	state.Lock()
	closers[link] = close
	state.Unlock()
	report("link-open", map[string]any{"link": link})
}

func settle(asked command) error {
	state.Lock()
	one := received[asked.Message-1]
	state.Unlock()
	switch asked.Outcome {
	case "accepted":
		return one.receiver.AcceptMessage(background, one.message)
	case "rejected":
		return one.receiver.RejectMessage(background, one.message, nil)
	case "released":
		return one.receiver.ReleaseMessage(background, one.message)
	}
	return one.receiver.ModifyMessage(background, one.message, &amqp.ModifyMessageOptions{DeliveryFailed: true})
}

func obey(asked command) error {
	switch asked.Do {
	case "connect":
		return connect(asked)
	case "sender":
		queues[asked.Link] = make(chan []byte, 1000)
		go attachSender(asked, queues[asked.Link])
		return nil
	case "receiver":
		go attachReceiver(asked)
		return nil
	case "send":
		queues[asked.Link] <- asked.content()
		return nil
	case "settle":
		return settle(asked)
	case "close_link":
		go closers[asked.Link](background)
		return nil
	case "disconnect":
		go connection.Close()
		return nil
	}
	return fmt.Errorf("there is no command %q", asked.Do)
}

func main() {
	serve("go-amqp", "github.com/Azure/go-amqp", obey, "connect")
}
