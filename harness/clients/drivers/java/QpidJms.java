// The driver of Qpid JMS: see docs/reference/client-drivers.md. The library names its links itself.
import static java.util.Map.entry;

import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsConnectionListener;
import org.apache.qpid.jms.message.JmsInboundMessageDispatch;
import org.apache.qpid.jms.message.JmsMessageSupport;
import org.apache.qpid.jms.policy.JmsDefaultPrefetchPolicy;
import org.apache.qpid.jms.policy.JmsDefaultPresettlePolicy;
import org.apache.qpid.jms.provider.exceptions.ProviderDeliveryModifiedException;
import org.apache.qpid.jms.provider.exceptions.ProviderDeliveryReleasedException;

final class QpidJms {
    private static final int INDIVIDUAL = 101;
    private static final Map<String, Integer> OUTCOMES = Map.of(
            "accepted", JmsMessageSupport.ACCEPTED,
            "rejected", JmsMessageSupport.REJECTED,
            "released", JmsMessageSupport.RELEASED,
            "modified", JmsMessageSupport.MODIFIED_FAILED);
    private static JmsConnection connection;
    private static volatile Session sending;
    private static final Map<String, MessageProducer> producers = new ConcurrentHashMap<>();
    private static final Map<String, MessageConsumer> consumers = new ConcurrentHashMap<>();
    private static final List<Message> received = new ArrayList<>();
    private static int posted;

    private static void connect(DriverLines.Asked asked) throws Exception {
        String options = "?jms.forceAsyncSend=true&amqp.saslMechanisms=PLAIN&amqp.idleTimeout=" + (asked.number("idle_ms") > 0 ? asked.number("idle_ms") : -1);
        if (asked.number("max_frame") > 0) options += "&amqp.maxFrameSize=" + asked.number("max_frame");
        JmsConnectionFactory factory = new JmsConnectionFactory("amqp://" + asked.text("host") + ":" + asked.number("port") + options);
        connection = (JmsConnection) factory.createConnection(asked.text("login"), asked.text("passcode"));
        connection.addConnectionListener(new JmsConnectionListener() {
            @Override
            public void onConnectionEstablished(URI server) {}

            @Override
            public void onConnectionInterrupted(URI server) {}

            @Override
            public void onConnectionRestored(URI server) {}

            @Override
            public void onInboundMessage(JmsInboundMessageDispatch message) {}

            @Override
            public void onConnectionFailure(Throwable problem) {
                DriverLines.reportError(problem);
                DriverLines.report("disconnected");
            }

            @Override
            public void onConsumerClosed(MessageConsumer consumer, Throwable cause) {
                closed(consumers, consumer);
            }

            @Override
            public void onProducerClosed(MessageProducer producer, Throwable cause) {
                closed(producers, producer);
            }

            @Override
            public void onSessionClosed(Session session, Throwable cause) {
                DriverLines.reportError(cause);
            }
        });
        connection.start();
        DriverLines.report("connected");
    }

    private static <T> void closed(Map<String, T> links, T link) {
        links.forEach((name, one) -> {
            if (one == link) DriverLines.report("link-closed", "link", name);
        });
    }

    private static void sender(DriverLines.Asked asked) throws Exception {
        JmsDefaultPresettlePolicy policy = new JmsDefaultPresettlePolicy();
        policy.setPresettleProducers(asked.text("mode").equals("settled"));
        connection.setPresettlePolicy(policy);
        if (sending == null) sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        producers.put(asked.text("link"), sending.createProducer(sending.createQueue(asked.text("address"))));
        DriverLines.report("link-open", "link", asked.text("link"));
    }

    // A session and its windows are made with the policy that the connection has then.
    private static void receiver(DriverLines.Asked asked) throws Exception {
        JmsDefaultPrefetchPolicy policy = new JmsDefaultPrefetchPolicy();
        policy.setAll(asked.number("credit"));
        connection.setPrefetchPolicy(policy);
        Session session = connection.createSession(false, INDIVIDUAL);
        MessageConsumer consumer = session.createConsumer(session.createQueue(asked.text("address")));
        String name = asked.text("link");
        consumers.put(name, consumer);
        DriverLines.report("link-open", "link", name);
        consumer.setMessageListener(message -> {
            try {
                DriverLines.reportMessage(Map.of("link", name), message.getBody(byte[].class), () -> received.add(message));
            } catch (Exception problem) {
                DriverLines.reportError(problem);
            }
        });
    }

    private static void send(DriverLines.Asked asked) throws Exception {
        MessageProducer producer = producers.get(asked.text("link"));
        BytesMessage message = sending.createBytesMessage();
        message.writeBytes(asked.content());
        int number = ++posted;
        producer.send(message, new CompletionListener() {
            @Override
            public void onCompletion(Message sent) {
                DriverLines.report("settled", "number", number, "outcome", "accepted");
            }

            @Override
            public void onException(Message sent, Exception problem) {
                Throwable cause = problem.getCause();
                String outcome = cause instanceof ProviderDeliveryReleasedException ? "released"
                        : cause instanceof ProviderDeliveryModifiedException ? "modified" : "rejected";
                DriverLines.report("settled", "number", number, "outcome", outcome, "problem", String.valueOf(problem));
            }
        });
    }

    private static void settle(DriverLines.Asked asked) throws Exception {
        Message one;
        synchronized (DriverLines.class) {
            one = received.get(asked.number("message") - 1);
        }
        one.setIntProperty(JmsMessageSupport.JMS_AMQP_ACK_TYPE, OUTCOMES.get(asked.text("outcome")));
        one.acknowledge();
    }

    private static void closeLink(String name) throws JMSException {
        if (producers.containsKey(name)) producers.get(name).close();
        else consumers.get(name).close();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, DriverLines.Action<DriverLines.Asked>> commands = Map.ofEntries(
                entry("connect", QpidJms::connect),
                entry("sender", asked -> DriverLines.beside(nothing -> sender(asked))),
                entry("receiver", asked -> DriverLines.beside(nothing -> receiver(asked))),
                entry("send", QpidJms::send),
                entry("settle", QpidJms::settle),
                entry("close_link", asked -> DriverLines.beside(nothing -> closeLink(asked.text("link")))),
                entry("disconnect", asked -> DriverLines.beside(nothing -> connection.close())));
        DriverLines.serve("Qpid JMS", JmsConnectionFactory.class, commands, "connect");
    }
}
