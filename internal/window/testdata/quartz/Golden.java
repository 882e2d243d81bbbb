// Golden prints what Quartz makes of cron expressions in UTC. See README.md.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Instant;
import java.util.Date;
import java.util.Random;
import java.util.TimeZone;
import org.quartz.CronExpression;

public class Golden {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            if (line.isEmpty()) {
                continue;
            }
            CronExpression cron;
            try {
                cron = new CronExpression(line);
            } catch (Exception e) {
                System.out.println(line + "\tinvalid");
                continue;
            }
            cron.setTimeZone(TimeZone.getTimeZone("GMT"));
            print(line, cron);
        }
    }

    private static void print(String line, CronExpression cron) {
        Random random = new Random(line.hashCode());
        long start = Instant.parse("2024-01-01T00:00:00Z").getEpochSecond();
        for (int i = 0; i < 5; i++) {
            long second = start + (long) (random.nextDouble() * 6 * 365 * 86400);
            Date next = row(line, cron, new Date(second * 1000));
            if (next != null) {
                row(line, cron, next);
            }
        }
    }

    private static Date row(String line, CronExpression cron, Date at) {
        Date next = cron.getNextValidTimeAfter(at);
        System.out.println(line + "\t" + at.toInstant() + "\t" + cron.isSatisfiedBy(at)
            + "\t" + (next == null ? "never" : next.toInstant().toString()));
        return next;
    }
}
