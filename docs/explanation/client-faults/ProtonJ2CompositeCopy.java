// org.apache.qpid:protonj2 1.0.0-M23: a frame that arrives in three pieces or more may end the connection.
//
// A frame that TCP delivers in pieces is decoded from a composite buffer. copy() of a range in its second
// piece throws IndexOutOfBoundsException if there is a third piece. The decoder reads symbols with copy(),
// so an open with offered-capabilities that arrives byte by byte makes the engine fail ("index: -1, length: 0
// (expected: range(0, 1))"), and the client cannot connect.
//
// AMQP 1.0, 2.3 Framing: a frame is a sequence of bytes in a TCP stream, whose segments have no meaning.
//
// Cause: protonj2/src/main/java/org/apache/qpid/protonj2/buffer/impl/ProtonCompositeBufferImpl.java#L626:
// "remaining" counts from the beginning of the composite instead of the piece in which the range begins,
// so it copies one piece too many, from a negative offset.
// Run with protonj2 1.0.0-M23 on the class path: java -cp 'lib/*' ProtonJ2CompositeCopy.java
import org.apache.qpid.protonj2.buffer.ProtonBufferAllocator;
import org.apache.qpid.protonj2.buffer.ProtonCompositeBuffer;

public class ProtonJ2CompositeCopy {
    public static void main(String[] arguments) {
        ProtonBufferAllocator allocator = ProtonBufferAllocator.defaultAllocator();
        ProtonCompositeBuffer frame = allocator.composite();
        for (int piece = 0; piece < 3; piece++) frame.append(allocator.copy(new byte[] {1, 2, 3, 4}));
        frame.copy(5, 2, true);
        System.out.println("copied");
    }
}
